"""insert: put statements before or after one statement."""

from __future__ import annotations

import ast
from typing import Any

from ..snippet import layout, statements
from ..source import Source, bodies, same
from .base import Edit, Operation, Splice, put_beside
from .statement import alone_on_its_lines, find_statement


class Insert(Operation):
    """`in`, one of `before` and `after` (a statement, or the header of a compound one), `add` (code)."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        self.after = "after" in spec
        self.anchor: str = spec["after"] if self.after else spec["before"]
        self.code: str = spec["add"]
        self.added = statements(self.code)

    def sought(self) -> str:
        return f"the statement {self.anchor.strip()!r} in {self.where}"

    def done(self, source: Source) -> bool:
        count = len(self.added)
        return any(
            same(block[index : index + count], self.added)
            for block in bodies(source.scope(self.where))
            for index in range(len(block) - count + 1)
        )

    def edit(self, source: Source) -> Edit:
        block, index = find_statement(source, self.where, self.anchor)
        statement = block[index]
        first, last = alone_on_its_lines(source, statement, self.where)
        indent = source.data[first : first + len(source.indent(source.line_of(first)))]
        code = layout(self.code, indent, source.newline)
        splice = Splice(first, first, code)
        if self.after:
            splice = Splice(last, last, source.newline + code[: -len(source.newline)])

        def mutate() -> None:
            put_beside(block, statement, statements(self.code), after=self.after)

        return Edit([splice], mutate, list[ast.AST](self.added), self.where)
