"""insert: put statements before or after one statement."""

from __future__ import annotations

import ast
from typing import Any

from ..errors import Drift
from ..snippet import header, layout, statements
from ..source import Source
from ..walk import bodies, same
from .base import Edit, Operation, Splice, put_beside
from .statement import alone_on_its_lines, find_statement, statements_like


class Insert(Operation):
    """`in`, one of `before` and `after` (a statement, or the header of a compound one), `add` (code), optional
    `elsewhere` (how many times the code stands in other places of the scope, rightly)."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        self.after = "after" in spec
        self.anchor: str = spec["after"] if self.after else spec["before"]
        header(self.anchor)
        self.code: str = spec["add"]
        self.added = statements(self.code)

    def sought(self) -> str:
        return f"the statement {self.anchor.strip()!r} in {self.where}"

    def done(self, source: Source) -> bool:
        count = len(self.added)
        places = [
            (block, index)
            for block in bodies(self.scope(source))
            for index in range(len(block) - count + 1)
            if same(block[index : index + count], self.added)
        ]
        if not places:
            return False
        anchors = [(id(block), index) for block, index in statements_like(source, self, self.anchor)]
        step = -1 if self.after else count
        beside = [place for place in places if (id(place[0]), place[1] + step) in anchors]
        elsewhere, expected = len(places) - len(beside), self.spec.get("elsewhere", 0)
        # With the anchor gone, the code itself is all there is to look for.
        if beside or (elsewhere > expected and not anchors):
            return True
        if elsewhere == expected:
            return False
        block, index = places[0]
        message = f"the code stands {elsewhere} times in {self.where}, but not beside {self.anchor.strip()!r}"
        raise Drift(
            "ambiguous",
            f"{message}; if it belongs there too, write `elsewhere: {elsewhere}`",
            source.candidate(block[index], self.where),
        )

    def edit(self, source: Source) -> Edit:
        block, index = find_statement(source, self, self.anchor)
        statement = block[index]
        first, last = alone_on_its_lines(source, statement, self.where)
        indent = source.data[first : first + len(source.indent(source.line_of(first)))]
        code = layout(self.code, indent, source.newline)
        splice = Splice(first, first, code)
        if self.after:
            splice = Splice(last, last, source.newline + code[: -len(source.newline)])

        def mutate() -> None:
            put_beside(block, statement, statements(self.code), after=self.after)

        return Edit([splice], mutate, list[ast.AST](self.added), self.chain(source))
