"""The tree of a file after its edits, of which only the touched statements are parsed again.

A line at which a statement of a block begins is a boundary that no token crosses: what stands between two of them
parses by itself as it does in the whole file. Statements with not a byte changed are taken over from the old tree, with
their old positions. Whether the whole is Python is not decided here: that takes compiling all of the new bytes.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

from .ops.base import Splice
from .source import Source


def reparse(old: Source, new: Source, splices: list[Splice]) -> ast.Module | None:
    """The tree of `new`, which is `old` with the splices made; None when it takes a parse of the whole file."""
    # An encoding is declared on one of the first two lines.
    if not splices or not old.tree.body or old.line_of(min(splice.start for splice in splices)) <= 2:
        return None
    body = _Pieces(old, new, splices).block(old.tree.body, 0, len(old.data), nested=False)
    return None if body is None else ast.Module(body=body, type_ignores=[])


class _Pieces:
    def __init__(self, old: Source, new: Source, splices: list[Splice]) -> None:
        self.old, self.new, self.splices = old, new, splices

    def block(self, body: list[ast.stmt], low: int, high: int, *, nested: bool) -> list[ast.stmt] | None:
        """The statements of a block that stands on the lines from offset `low` to `high` of the old file."""
        indent = self._indent(self.old, body[0]) if nested else None
        begins: list[int] = []
        groups: list[list[ast.stmt]] = []
        for statement in body:
            start = self.old.span(statement)[0]
            line = self.old.line_start(self.old.line_of(start))
            if begins and (line <= begins[-1] or self.old.data[line:start].strip()):
                groups[-1].append(statement)
            else:
                begins.append(line)
                groups.append([statement])
        bounds = [low, *begins[1:], high]
        touched = [self._touched(bounds[index], bounds[index + 1]) for index in range(len(groups))]
        found: list[ast.stmt] = []
        index = 0
        while index < len(groups):
            if not touched[index]:
                found += groups[index]
                index += 1
                continue
            if (inner := self._class(groups[index], bounds[index], bounds[index + 1])) is not None:
                found.append(inner)
                index += 1
                continue
            end = index + 1
            while end < len(groups) and touched[end]:
                end += 1
            parsed = self._parse(bounds[index], bounds[end], indent)
            if parsed is None:
                return None
            found += parsed
            index = end
        return found

    def _class(self, group: list[ast.stmt], low: int, high: int) -> ast.stmt | None:
        """A class of which only the body is touched, with the touched statements of its body parsed again."""
        node: Any = group[0]
        if len(group) > 1 or not isinstance(node, ast.ClassDef):
            return None
        first = self.old.line_start(self.old.line_of(self.old.span(node.body[0])[0]))
        crossing = any(splice.start < high < splice.end for splice in self.splices)
        if crossing or first <= self.old.line_start(node.lineno) or self._touched(low, first):
            return None
        body = self.block(node.body, first, high, nested=True)
        if body is None:
            return None
        found = copy.copy(node)
        found.body = body
        return found

    def _touched(self, low: int, high: int) -> bool:
        last = high == len(self.old.data)
        return any(
            (splice.start < high and splice.end > low)
            or (splice.start == splice.end and low <= splice.start and (splice.start < high or last))
            for splice in self.splices
        )

    def _moved(self, offset: int) -> int:
        """Where a boundary of the old file is in the new one; what is inserted at it comes behind it."""
        before = (splice for splice in self.splices if splice.start < offset)
        return offset + sum(len(splice.text) - (splice.end - splice.start) for splice in before)

    def _parse(self, low: int, high: int, indent: bytes | None) -> list[ast.stmt] | None:
        start = self._moved(low)
        end = len(self.new.data) if high == len(self.old.data) else self._moved(high)
        piece = self.new.data[start:end]
        if end < len(self.new.data) and not piece.endswith(b"\n"):
            return None
        # Empty lines before it give the piece its line numbers.
        lines = self.new.data.count(b"\n", 0, start)
        before = "\n" * (lines - 1) + "class _:\n" if indent is not None else "\n" * lines
        try:
            body = ast.parse(before + piece.decode("utf-8-sig")).body
        except (SyntaxError, ValueError):
            return None
        if indent is None:
            return body
        if len(body) != 1 or not isinstance(body[0], ast.ClassDef):
            return None
        # Deeper in, the piece would belong to what stands before it.
        return body[0].body if self._indent(self.new, body[0].body[0]) == indent else None

    def _indent(self, source: Source, statement: ast.stmt) -> bytes:
        decorators = getattr(statement, "decorator_list", None)
        return source.indent(decorators[0].lineno if decorators else statement.lineno)
