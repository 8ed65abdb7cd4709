"""import: bind names at the top of a module."""

from __future__ import annotations

import ast
from typing import Any

from ..errors import Drift
from ..snippet import layout, statements
from ..source import SCOPES, Source
from .base import Edit, Operation, Splice, put_beside
from .statement import alone_on_its_lines


class Import(Operation):
    """`add`: {from: MODULE, names: [NAME, "NAME as OTHER"]} or {import: MODULE}."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        add = spec["add"]
        self.module: str = add.get("from") or add["import"]
        self.names: list[str] = add.get("names", [])

    def sought(self) -> str:
        return "the imports at the top of the module"

    def done(self, source: Source) -> bool:
        return not self._missing(source)

    def edit(self, source: Source) -> Edit:
        missing = self._missing(source)
        text = f"from {self.module} import {', '.join(missing)}" if self.names else f"import {self.module}"
        body = source.tree.body
        index = None
        for number, statement in enumerate(body):
            if isinstance(statement, SCOPES):
                break
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                index = number
        if index is None:
            raise Drift("anchor", "the module has no import before its first definition")
        anchor = body[index]
        _, end = alone_on_its_lines(source, anchor)
        code = source.newline + layout(text, b"", source.newline)[: -len(source.newline)]

        def mutate() -> None:
            put_beside(body, anchor, statements(text), after=True)

        return Edit([Splice(end, end, code)], mutate)

    def _missing(self, source: Source) -> list[str]:
        bound: dict[str, str] = {}
        for statement in source.tree.body:
            if isinstance(statement, ast.ImportFrom):
                origin = "." * statement.level + (statement.module or "")
                for alias in statement.names:
                    bound[alias.asname or alias.name] = f"{origin}:{alias.name}"
            elif isinstance(statement, ast.Import):
                for alias in statement.names:
                    bound[alias.asname or alias.name] = alias.name
        if not self.names:
            return [] if bound.get(self.module) == self.module else [self.module]
        missing = []
        for item in self.names:
            name, _, other = item.partition(" as ")
            known = bound.get(other or name)
            if known is None:
                missing.append(item)
            elif known != f"{self.module}:{name}":
                raise Drift("conflict", f"the module already binds {other or name} to {known}")
        return missing
