"""The patch file: its keys and their types. What an operation does with them is the applier's business."""

import difflib
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from recipe.applier.errors import ApplierError
from recipe.applier.ops import OPERATIONS
from recipe.applier.tree import check_patchable, check_relative
from recipe.config.explain import wrong
from recipe.config.fields import Releases, matching


def _dashes(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_dashes, populate_by_name=True)


def _patchable(file: str, *, new: bool = False) -> str:
    try:
        check_patchable(file, new=new)
    except ApplierError as error:
        raise wrong(error.message, error.hint or "") from None
    return file


def _beside(name: str) -> str:
    """The path of a file that a patch brings, below the folder where such files are kept."""
    try:
        check_relative(name.removeprefix("./"))
    except ApplierError as error:
        raise wrong(error.message, "name a file of the folder where such files are kept") from None
    return name


def _operation(edit: Any) -> Any:
    op = edit.get("op") if isinstance(edit, dict) else None
    if isinstance(op, str) and op not in OPERATIONS:
        near = difflib.get_close_matches(op, OPERATIONS, 1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(OPERATIONS)}"
        raise wrong(f"there is no operation {op!r}", hint)
    return edit


Code = Annotated[str, AfterValidator(matching(r"(?s).*\S.*", "any code", "write some"))]
Module = Annotated[str, AfterValidator(matching(r"\.*[\w.]*", "the name of a module", "write it as vllm.module"))]
Imported = Annotated[
    str, AfterValidator(matching(r"[^\W\d]\w*( as [^\W\d]\w*)?", "a name to import", "write NAME or NAME as OTHER"))
]

Scope = Annotated[
    str,
    AfterValidator(
        matching(
            r"<module>|[^\W\d]\w*(\.[^\W\d]\w*)*", "the name of a definition", "write it as function or Class.method"
        )
    ),
]
Fingerprint = Annotated[
    str, AfterValidator(matching("[0-9a-f]{64}", "a fingerprint", "`hallmark plan` tells the one that is there"))
]
Which = Annotated[
    str,
    AfterValidator(
        matching(
            r"[1-9]\d* of [1-9]\d*|[^\W\d][\w.]*(\(.*\))?",
            "one of several definitions",
            "write `2 of 3`, or its decorator without the @",
        )
    ),
]


class _Edit(_Model):
    file: Annotated[str, AfterValidator(_patchable)]
    when: Annotated[Releases, AfterValidator(matching(r".*\S.*", "a version range", 'write one like ">=0.25,<0.28"'))]


class _Scoped(_Edit):
    """An edit of one definition. `def` says which of several of one name; `context` holds the fingerprints of the
    definition as it was when somebody looked at it."""

    in_: Scope = "<module>"
    def_: Which | None = None
    context: list[Fingerprint] | None = None

    @model_validator(mode="after")
    def _of_a_definition(self) -> "_Scoped":
        if self.in_ == "<module>" and (self.def_ is not None or self.context is not None):
            raise wrong("`def` and `context` are about a definition", "name it with `in`")
        return self


class _Code(_Scoped):
    """An edit that brings code: written in the patch file, or in a file of `snippets/`."""

    add: str | None = None
    snippet: Annotated[str, AfterValidator(_beside)] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "_Code":
        if (self.add is None) == (self.snippet is None):
            raise wrong("needs exactly one of `add` and `snippet`", "write the code here, or name its file")
        return self


class CallKeyword(_Scoped):
    op: Literal["call-keyword"]
    call: str
    where: dict[str, str] = {}
    add: dict[str, str] = Field(min_length=1)


class ParameterDetails(_Model):
    default: str
    annotation: str | None = None


class Parameter(_Scoped):
    op: Literal["parameter"]
    in_: Scope
    add: dict[str, ParameterDetails] = Field(min_length=1, max_length=1)


class Insert(_Code):
    op: Literal["insert"]
    before: str | None = None
    after: str | None = None
    elsewhere: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one_anchor(self) -> "Insert":
        if (self.before is None) == (self.after is None):
            raise wrong("needs exactly one of `before` and `after`", "write the statement beside which the code goes")
        return self


class Replace(_Scoped):
    op: Literal["replace"]
    old: Code
    new: Code


class Body(_Code):
    op: Literal["body"]
    fingerprint: Fingerprint


class Member(_Scoped):
    op: Literal["member"]
    of: str
    add: str | dict[str, str]
    after: str | None = None


class ImportNames(_Model):
    from_: Module | None = None
    names: list[Imported] = []
    import_: Module | None = None

    @model_validator(mode="after")
    def _one_form(self) -> "ImportNames":
        if (self.from_ is None) == (self.import_ is None) or bool(self.from_) != bool(self.names):
            raise wrong("is no import", "write {from: MODULE, names: [NAME]} or {import: MODULE}")
        return self


class Import(_Edit):
    op: Literal["import"]
    add: ImportNames


class Text(_Scoped):
    op: Literal["text"]
    old: Code
    new: Code
    count: int = Field(ge=1)


class Overlay(_Edit):
    op: Literal["overlay"]
    source: Annotated[str, AfterValidator(_beside)]
    replaces: list[str] = []

    @model_validator(mode="after")
    def _of_vllm(self) -> "Overlay":
        _patchable(self.file, new=not self.replaces)
        return self


Edit = Annotated[
    CallKeyword | Parameter | Insert | Replace | Body | Member | Import | Text | Overlay,
    Field(discriminator="op"),
    BeforeValidator(_operation),
]


class Upstream(_Model):
    """Where upstream discusses the fix: a pull request, an issue, or a sentence why there is none."""

    pr: int | None = None
    issue: int | None = None
    none: str | None = None
    status: str
    checked: str

    @model_validator(mode="after")
    def _something(self) -> "Upstream":
        if self.pr is None and self.issue is None and self.none is None:
            raise wrong("names no thread", "write `pr`, `issue`, or `none` with the reason why there is neither")
        return self


class PatchFile(_Model):
    """One fix, with its reason, upstream link, removal condition and edits.

    `note` is for whoever applies it: what it does not do, in one line that `plan` shows. `proof` names the files that
    show what it does: proofs that CI runs, and reports of runs on hardware.
    """

    id: str = Field(pattern="^[a-z0-9][a-z0-9-]*$")
    title: str
    class_: Literal["temporary", "local", "divergent", "expectation"]
    why: str
    upstream: Upstream
    remove_when: str
    independent: bool = False
    note: str | None = None
    edits: list[Edit] = Field(min_length=1)
    proof: list[str] = Field(default_factory=list)
