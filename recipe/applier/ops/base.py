"""What every operation has in common, and the byte arithmetic of lists of arguments and elements."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from ..errors import Drift
from ..source import MODULE, Source
from ..walk import fingerprint


@dataclass(frozen=True)
class Splice:
    """Replace the bytes [start, end) by `text`; start == end inserts."""

    start: int
    end: int
    text: bytes


@dataclass
class Edit:
    """What an operation will do to a file.

    `splices` change the bytes. `mutate()` makes the same change on the *old* tree in place, so that it can be
    compared with the tree of the new bytes; None for operations on raw text. `uses` are the added nodes whose
    names must be bound where they run: in the last of `chain`, which is the module and the definitions around the
    place. `annotations` are read by type checkers, and by Python only where the module does not defer them.
    """

    splices: list[Splice]
    mutate: Any = None
    uses: list[ast.AST] = field(default_factory=list)
    chain: list[Any] = field(default_factory=list)
    annotations: list[ast.AST] = field(default_factory=list)


class Operation:
    """One edit. `where` is the qualified name of the definition it works in, `which` says which of several."""

    structural = True

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.where: str = spec.get("in", MODULE)
        self.which: str | None = spec.get("def")

    def chain(self, source: Source) -> list[Any]:
        """The definition that `in` and `def` name, behind those around it. Errors: Drift(scope, ambiguous)."""
        return source.chain(self.where, self.which)

    def scope(self, source: Source) -> Any:
        """The definition that `in` and `def` name. Errors: Drift(scope, ambiguous)."""
        return self.chain(source)[-1]

    def check_context(self, source: Source) -> None:
        """Errors: Drift(context) when the definition is not one of those that `context` names by fingerprint."""
        wanted = self.spec.get("context")
        if wanted is None:
            return
        scope = self.scope(source)
        found = fingerprint(scope)
        if found not in wanted:
            place = None if self.where == MODULE else source.candidate(scope, self.where)
            message = f"{self.where} is not as it was when this edit was looked at (its fingerprint now: {found})"
            raise Drift("context", message, place)

    def tells(self) -> bool:
        """Whether the post-condition says by itself that the change was made, on a file that was never edited."""
        return True

    def done(self, source: Source) -> bool:
        """Whether the post-condition holds. Errors: Drift where that cannot be told."""
        raise NotImplementedError

    def edit(self, source: Source) -> Edit:
        """Find the place and say what to change. Errors: Drift."""
        raise NotImplementedError

    def sought(self) -> str:
        """What the edit looks for, for reports."""
        raise NotImplementedError


def index_of(nodes: list[Any], node: Any) -> int:
    """Where a node of the old tree is now. Errors: Drift(overlap) when another edit took it away."""
    for index, found in enumerate(nodes):
        if found is node:
            return index
    raise Drift("overlap", "another edit of this file replaces what this edit stands beside")


def put_beside(nodes: list[Any], anchor: Any, added: list[Any], *, after: bool) -> int:
    """Insert nodes beside `anchor` in place, behind what earlier edits have put there. Returns their index."""
    index = index_of(nodes, anchor)
    if after:
        index += 1
        while index < len(nodes) and getattr(nodes[index], "hallmark_added", False):
            index += 1
    for node in added:
        node.hallmark_added = True
    nodes[index:index] = added
    return index


@dataclass(frozen=True)
class Gap:
    """What stands between the last element of a bracketed list and its closing bracket.

    `element_end` is behind the element and the parentheses around it; `comma_end` is behind its comma, or None.
    """

    element_end: int
    comma_end: int | None


def gap_after(source: Source, element_end: int, closing: int) -> Gap:
    """Look at the bytes from an element's end to the next comma or to `closing`, the closing bracket's offset."""
    data, position, end = source.data, element_end, element_end
    while position < closing:
        byte = data[position : position + 1]
        if byte == b",":
            return Gap(end, position + 1)
        if byte == b"#":
            newline = data.find(source.newline, position, closing)
            position = closing if newline < 0 else newline
            continue
        if byte == b")":
            end = position + 1
        elif byte not in b" \t\r\n\f\\":
            raise Drift("syntax", f"unexpected {byte.decode(errors='replace')!r} behind an element at byte {position}")
        position += 1
    return Gap(end, None)


def add_element(source: Source, start: int, end: int, closing: int, text: str) -> Splice:
    """The splice that puts `text` behind the element [start, end) of a bracketed list in the list's own layout.

    An element that has its line to itself gets a line of its own after it, behind the comment on that line. Two
    additions behind one element fit together, except where a comment takes the place of the comma.
    """
    gap = gap_after(source, end, closing)
    new = source.encode(text)
    line = source.line_of(start)
    own_line = not source.data[source.line_start(line) : start].strip()
    bracket_line = source.line_of(closing)
    anchor = gap.comma_end if gap.comma_end is not None else gap.element_end
    rest_line = source.line_of(anchor)
    line_end = source.line_end(rest_line)
    rest = source.data[anchor:line_end].strip()
    if own_line and bracket_line > rest_line and (not rest or rest.startswith(b"#")):
        addition = source.newline + source.indent(line) + new
        if gap.comma_end is not None:
            return Splice(line_end, line_end, addition + b",")
        if rest:
            comment = source.data[gap.element_end : line_end]
            return Splice(gap.element_end, line_end, b"," + comment + addition)
        return Splice(gap.element_end, gap.element_end, b"," + addition)
    return Splice(gap.element_end, gap.element_end, b", " + new)


def first_element(source: Source, closing: int, text: str) -> Splice:
    """The splice that puts `text` into empty brackets.

    It takes the bracket's place, so that two additions, which would need a comma, are seen to overlap.
    """
    return Splice(closing, closing + 1, source.encode(text) + source.data[closing : closing + 1])
