"""body: exchange the whole body of a function, given the fingerprint of the body it replaces."""

from __future__ import annotations

import ast
from typing import Any

from ..errors import Drift
from ..snippet import layout, statements
from ..source import Source
from ..walk import FUNCTIONS, fingerprint, same
from .base import Edit, Operation, Splice


class Body(Operation):
    """`in` (a function), `fingerprint` (sha256 of its body's structure), `add` (the new body)."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        self.code: str = spec["add"]
        self.added = statements(self.code)

    def sought(self) -> str:
        return f"the body of {self.where} with fingerprint {self.spec['fingerprint'][:12]}"

    def done(self, source: Source) -> bool:
        return same(self._function(source).body, self.added)

    def edit(self, source: Source) -> Edit:
        function = self._function(source)
        found = fingerprint(function.body)
        if found != self.spec["fingerprint"]:
            raise Drift(
                "context",
                f"the body of {self.where} is another one (fingerprint {found})",
                source.candidate(function, self.where),
            )
        start, end = source.span(function.body[0])[0], source.span(function.body[-1])[1]
        first = source.line_of(start)
        if source.data[source.line_start(first) : start].strip():
            message = f"the body of {self.where} begins on the line of its def"
            raise Drift("syntax", message, source.candidate(function, self.where))
        indent = source.indent(first)
        code = layout(self.code, indent, source.newline)[len(indent) : -len(source.newline)]

        def mutate() -> None:
            function.body[:] = statements(self.code)

        return Edit([Splice(start, end, code)], mutate, list[ast.AST](self.added), self.chain(source))

    def _function(self, source: Source) -> Any:
        found = self.scope(source)
        if not isinstance(found, FUNCTIONS):
            raise Drift("scope", f"{self.where} is not a function", source.candidate(found, self.where))
        return found
