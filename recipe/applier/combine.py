"""Puts the edits of one file together and checks the result; finds the edits that are to blame when it is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import check
from .errors import Drift
from .manifest import Undo
from .ops import Edit, Operation, Splice, operation
from .ops.overlay import Overlay
from .reparse import reparse
from .source import Source, quiet, shallow
from .states import PENDING, EditPlan


@dataclass
class Item:
    """An edit of the patch set on its way through the plan."""

    patch: dict[str, Any]
    spec: dict[str, Any]
    plan: EditPlan
    operation: Operation | None = None
    edit: Edit | None = None

    @property
    def expectation(self) -> bool:
        return bool(self.patch["class"] == "expectation")

    def drift(self, drift: Drift) -> None:
        """Whatever keeps an expectation from being true makes it an unmet one."""
        self.plan.drift(Drift("expectation", drift.message, drift.nearest) if self.expectation else drift)


class _Overlap(Drift):
    """Two edits that cannot both be made."""

    def __init__(self, first: Item, second: Item) -> None:
        ids = f"{first.patch['id']} and {second.patch['id']}"
        super().__init__("overlap", f"{ids} change the same place of {first.plan.file}")
        self.items = (first, second)


def combine(
    file: str, pristine: bytes | None, source: Source | None, items: list[Item]
) -> tuple[bytes, tuple[Undo, ...]]:
    """Put the edits of one file together and check the result. `source` is None for an overlay.

    Errors: a Drift that `blame` is to give to the right edits; an unbound name is given at once.
    """
    overlay = next((item for item in items if isinstance(item.operation, Overlay)), None)
    if overlay is not None:
        if len(items) > 1:
            raise _Overlap(*items[:2])
        assert isinstance(overlay.operation, Overlay)
        if file.endswith(".py"):
            content = Source(file, overlay.operation.content)
            _compile(content)
            content.check_encoding()
        return overlay.operation.content, ()
    assert source is not None and pristine is not None
    edits = [item.edit for item in items if item.edit is not None]
    after, undo = _splice(pristine, items)
    new = Source(file, after)
    if file.endswith(".py"):
        _compile(new)
        if all(edit.mutate is not None for edit in edits):
            splices = [splice for edit in edits for splice in edit.splices]
            with quiet():
                new = Source(file, after, reparse(source, new, splices))
        names_of = check.Unbound(source, edits)
        scopes = {id(item): item.operation.scope(source) for item in items if item.operation and _structural(item)}
        captured = check.Captured(scopes.values(), pristine)
        check.only_intended(source, new, edits)
        for scope, names in captured.find(after):
            for item in items:
                if scopes.get(id(item)) is scope and _brings(item, names):
                    reads = f"{item.plan.where} reads {', '.join(names)} from outside"
                    message = f"{reads}; the edit hides it and needs another name"
                    item.drift(Drift("conflict", message, source.candidate(scope, item.plan.where)))
        for edit, names in names_of.find(new):
            item = next(item for item in items if item.edit is edit)
            place = source.candidate_at(source.line_of(edit.splices[0].start), item.plan.where)
            message = f"{item.plan.where} does not bind {', '.join(names)}, which the edit uses"
            item.drift(Drift("unbound", message, place))
    for item in items:
        # Beside the code that others bring the place may not be the only one of its kind any more.
        if not _holds(item, new) and not (len(items) > 1 and _holds(item, Source(file, _splice(pristine, [item])[0]))):
            raise Drift("partial", f"after the edit its own condition does not hold: {_sought(item)}")
    return after, undo


def _structural(item: Item) -> bool:
    return item.edit is not None and item.edit.mutate is not None


def _brings(item: Item, names: list[str]) -> bool:
    text = b" ".join(splice.text for splice in item.edit.splices) if item.edit else b""
    return any(name.encode() in text for name in names)


def _holds(item: Item, source: Source) -> bool:
    try:
        return item.operation is not None and item.operation.done(source)
    except Drift:
        return False


def _sought(item: Item) -> str:
    return item.operation.sought() if item.operation else item.plan.op


def blame(file: str, pristine: bytes | None, items: list[Item], drift: Drift) -> None:
    """Give the drift of a whole file to the edits that cause it: those that have one alone, else all of them."""
    if isinstance(drift, _Overlap):
        for item in drift.items:
            item.drift(drift)
        return
    pending = [item for item in items if item.plan.state == PENDING]
    for item in pending if len(items) > 1 else []:
        try:
            # A source of its own, as checking changes the tree.
            with shallow(file):
                source, again = Source(file, pristine or b""), operation(item.spec)
                edit = again.edit(source) if item.edit is not None else None
                combine(file, pristine, source, [Item(item.patch, item.spec, item.plan, again, edit)])
        except Drift as own:
            item.drift(own)
    if all(item.plan.state == PENDING for item in pending):
        ids = ", ".join(sorted({item.patch["id"] for item in pending}))
        together = Drift("overlap", f"the edits of {ids} do not fit together: {drift.message}")
        for item in pending:
            item.drift(drift if len(items) == 1 else together)


def _splice(pristine: bytes, items: list[Item]) -> tuple[bytes, tuple[Undo, ...]]:
    pieces: list[tuple[Splice, Item]] = [
        (splice, item) for item in items if item.edit is not None for splice in item.edit.splices
    ]
    # Insertions at one place keep the order of the series: the sort is stable.
    pieces.sort(key=lambda piece: (piece[0].start, piece[0].end))
    out, undo, position = bytearray(), [], 0
    before: Item | None = None
    for splice, item in pieces:
        if splice.start < position and before is not None:
            raise _Overlap(before, item)
        before = item
        out += pristine[position : splice.start]
        undo.append(Undo(len(out), len(splice.text), pristine[splice.start : splice.end]))
        out += splice.text
        position = splice.end
    out += pristine[position:]
    return bytes(out), tuple(undo)


def _compile(source: Source) -> None:
    try:
        with quiet():
            compile(source.data, source.path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise Drift("syntax", f"with the edits {source.path} does not compile: {error}") from None
