"""The patch file: its keys and their types. What an operation does with them is the applier's business."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


def _dashes(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_dashes, populate_by_name=True)


class _Edit(_Model):
    file: str
    when: str


class _Scoped(_Edit):
    in_: str = "<module>"


class _Code(_Scoped):
    """An edit that brings code: written in the patch file, or in a file of `snippets/`."""

    add: str | None = None
    snippet: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "_Code":
        if (self.add is None) == (self.snippet is None):
            raise ValueError("needs exactly one of `add` and `snippet`")
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
    in_: str
    add: dict[str, ParameterDetails] = Field(min_length=1, max_length=1)


class Insert(_Code):
    op: Literal["insert"]
    before: str | None = None
    after: str | None = None

    @model_validator(mode="after")
    def _one_anchor(self) -> "Insert":
        if (self.before is None) == (self.after is None):
            raise ValueError("needs exactly one of `before` and `after`")
        return self


class Replace(_Scoped):
    op: Literal["replace"]
    old: str
    new: str


class Body(_Code):
    op: Literal["body"]
    fingerprint: str = Field(pattern="^[0-9a-f]{64}$")


class Member(_Scoped):
    op: Literal["member"]
    of: str
    add: str | dict[str, str]
    after: str | None = None


class ImportNames(_Model):
    from_: str | None = None
    names: list[str] = []
    import_: str | None = None

    @model_validator(mode="after")
    def _one_form(self) -> "ImportNames":
        if (self.from_ is None) == (self.import_ is None) or bool(self.from_) != bool(self.names):
            raise ValueError("is either {from: MODULE, names: [NAME]} or {import: MODULE}")
        return self


class Import(_Edit):
    op: Literal["import"]
    add: ImportNames


class Text(_Scoped):
    op: Literal["text"]
    old: str = Field(min_length=1)
    new: str
    count: int = Field(ge=1)


class Overlay(_Edit):
    op: Literal["overlay"]
    source: str
    replaces: list[str] = []


Edit = Annotated[
    CallKeyword | Parameter | Insert | Replace | Body | Member | Import | Text | Overlay, Field(discriminator="op")
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
            raise ValueError("needs `pr`, `issue`, or `none` with the reason why there is neither")
        return self


class PatchFile(_Model):
    """One fix, with its reason, upstream link, removal condition and edits."""

    id: str = Field(pattern="^[a-z0-9][a-z0-9-]*$")
    title: str
    class_: Literal["temporary", "local", "divergent", "expectation"]
    why: str
    upstream: Upstream
    remove_when: str
    independent: bool = False
    edits: list[Edit] = Field(min_length=1)
    proof: str | None = None
