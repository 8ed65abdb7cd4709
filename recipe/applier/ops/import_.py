"""import: bind names at the top of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from ..errors import Drift
from ..snippet import layout, statements
from ..source import MODULE, Source
from ..walk import SCOPES
from .base import Edit, Operation, Splice, put_beside
from .statement import alone_on_its_lines


class Import(Operation):
    """`add`: {from: MODULE, names: [NAME, "NAME as OTHER"]} or {import: MODULE}."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        add = spec["add"]
        self.module: str = add.get("from") or add["import"]
        self.names: list[str] = add.get("names", [])
        statements(self._text(self.names))

    def sought(self) -> str:
        return "the imports at the top of the module"

    def done(self, source: Source) -> bool:
        return not self._missing(source)

    def edit(self, source: Source) -> Edit:
        missing = self._missing(source)
        text = self._text(missing)
        body = source.tree.body
        index = None
        for number, statement in enumerate(body):
            if isinstance(statement, SCOPES):
                break
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                index = number
        if index is None:
            first = source.candidate(body[0], MODULE) if body else None
            raise Drift("anchor", "the module has no import before its first definition", first)
        anchor = body[index]
        _, end = alone_on_its_lines(source, anchor, MODULE)
        code = source.newline + layout(text, b"", source.newline)[: -len(source.newline)]

        def mutate() -> None:
            put_beside(body, anchor, statements(text), after=True)

        return Edit([Splice(end, end, code)], mutate)

    def _text(self, names: list[str]) -> str:
        return f"from {self.module} import {', '.join(names)}" if self.names else f"import {self.module}"

    def _missing(self, source: Source) -> list[str]:
        bound = dict(_bindings(source))
        wanted = {self.module: (self.module, self.module)}
        if self.names:
            parts = {item: item.partition(" as ") for item in self.names}
            wanted = {item: (other or name, f"{self.module}:{name}") for item, (name, _, other) in parts.items()}
        for name, origin in wanted.values():
            if name in bound and bound[name][0] != origin:
                known, statement = bound[name]
                message = f"the module already binds {name} to {known}"
                raise Drift("conflict", message, source.candidate(statement, MODULE))
        return [item for item, (name, _) in wanted.items() if name not in bound]


def _bindings(source: Source) -> Iterator[tuple[str, tuple[str, ast.stmt]]]:
    """Yield (name, (what it is bound to, statement)) of the top level: imports, definitions, assignments."""
    for statement in source.tree.body:
        if isinstance(statement, ast.ImportFrom):
            origin = "." * statement.level + (statement.module or "")
            for alias in statement.names:
                yield alias.asname or alias.name, (f"{origin}:{alias.name}", statement)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                yield alias.asname or alias.name, (alias.name, statement)
        elif isinstance(statement, SCOPES):
            yield statement.name, ("a definition of its own", statement)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                if isinstance(target, ast.Name):
                    yield target.id, ("a value of its own", statement)
