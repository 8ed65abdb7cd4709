"""replace: exchange one statement, or one expression, for another."""

from __future__ import annotations

import ast
from typing import Any

from ..errors import Drift
from ..snippet import layout, statements, try_expression
from ..source import Source, bodies, own_nodes, same
from .base import Edit, Operation, Splice
from .statement import find_statement, nearest


class Replace(Operation):
    """`in`, `old`, `new`: both expressions, or `old` one statement and `new` one or more."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        self.old: str = spec["old"]
        self.new: str = spec["new"]
        old, new = try_expression(self.old), try_expression(self.new)
        self.expressions = (old, new) if old is not None and new is not None else None

    def sought(self) -> str:
        return f"{self.old.strip()!r} in {self.where}"

    def done(self, source: Source) -> bool:
        scope = source.scope(self.where)
        if self.expressions:
            old, new = self.expressions
            nodes = [node for node, _ in own_nodes(scope)]
            # What the new code itself contains of the old does not count as a leftover.
            inside = {id(part) for node in nodes if same(node, new) for part in ast.walk(node)}
            left = [node for node in nodes if same(node, old) and id(node) not in inside]
            return bool(inside) and not left
        wanted = statements(self.new)
        blocks = list(bodies(scope))
        present = any(
            same(block[index : index + len(wanted)], wanted)
            for block in blocks
            for index in range(len(block) - len(wanted) + 1)
        )
        return present and not any(same([statement], statements(self.old)) for block in blocks for statement in block)

    def edit(self, source: Source) -> Edit:
        return self._edit_expression(source) if self.expressions else self._edit_statement(source)

    def _edit_expression(self, source: Source) -> Edit:
        assert self.expressions is not None
        old, new = self.expressions
        places: list[tuple[Any, str, int | None]] = []
        in_strings = 0
        scope = source.scope(self.where)
        parents = [scope, *(node for node, _ in own_nodes(scope))]
        in_string_nodes = {id(node) for node, in_string in own_nodes(scope) if in_string}
        own = {id(node) for node in parents}
        for parent in parents:
            for name, value in ast.iter_fields(parent):
                for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    if id(child) in own and isinstance(child, ast.expr) and same(child, old):
                        if id(child) in in_string_nodes:
                            in_strings += 1
                        else:
                            places.append((parent, name, index))
        if len(places) != 1:
            if places:
                raise Drift("ambiguous", f"{self.sought()} stands there {len(places)} times")
            if in_strings:
                raise Drift("anchor", f"{self.sought()} stands only inside an f-string")
            raise Drift("anchor", f"not found: {self.sought()}", nearest(source, self.where, self.old))
        parent, name, index = places[0]
        node = getattr(parent, name) if index is None else getattr(parent, name)[index]
        start, end = source.span(node)

        def mutate() -> None:
            if index is None:
                setattr(parent, name, new)
            else:
                getattr(parent, name)[index] = new

        return Edit([Splice(start, end, self.new.strip().encode())], mutate, [new], self.where)

    def _edit_statement(self, source: Source) -> Edit:
        block, index = find_statement(source, self.where, self.old)
        statement = block[index]
        start, end = source.span(statement)
        indent = source.indent(source.line_of(start))
        code = layout(self.new, indent, source.newline)[len(indent) : -len(source.newline)]
        added = statements(self.new)

        def mutate() -> None:
            block[index : index + 1] = statements(self.new)

        return Edit([Splice(start, end, code)], mutate, list[ast.AST](added), self.where)
