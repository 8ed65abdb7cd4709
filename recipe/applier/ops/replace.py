"""replace: exchange one statement, or one expression, for another."""

from __future__ import annotations

import ast
from typing import Any

from ..errors import Drift
from ..snippet import header, layout, statements, try_expression
from ..source import Source
from ..walk import FUNCTIONS, bodies, own_nodes, same
from .base import Edit, Operation, Splice, index_of
from .statement import find_statement, nearest


class Replace(Operation):
    """`in`, `old`, `new`: both expressions, or `old` one statement and `new` one or more."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        self.old: str = spec["old"]
        self.new: str = spec["new"]
        old, new = try_expression(self.old), try_expression(self.new)
        self.expressions = (old, new) if old is not None and new is not None else None
        if self.expressions is None:
            header(self.old)
            statements(self.new)

    def sought(self) -> str:
        return f"{self.old.strip()!r} in {self.where}"

    def tells(self) -> bool:
        # A lone name stands in many places; that the old code is gone and the name is there means nothing.
        return self.expressions is None or not isinstance(self.expressions[1], (ast.Name, ast.Constant))

    def done(self, source: Source) -> bool:
        # What the new code itself contains of the old does not count as left over.
        scope = self.scope(source)
        if self.expressions:
            old, new = self.expressions
            nodes = [node for node, _ in own_nodes(scope)]
            inside = {id(part) for node in nodes if same(node, new) for part in ast.walk(node)}
            left = [node for node in nodes if same(node, old) and id(node) not in inside]
            return bool(inside) and not left
        removed, wanted = statements(self.old), statements(self.new)
        blocks = list(bodies(scope))
        inside = {
            id(part)
            for block in blocks
            for index in range(len(block) - len(wanted) + 1)
            if same(block[index : index + len(wanted)], wanted)
            for statement in block[index : index + len(wanted)]
            for part in ast.walk(statement)
        }
        left = [s for block in blocks for s in block if same([s], removed) and id(s) not in inside]
        return bool(inside) and not left

    def edit(self, source: Source) -> Edit:
        return self._edit_expression(source) if self.expressions else self._edit_statement(source)

    def _edit_expression(self, source: Source) -> Edit:
        assert self.expressions is not None
        old, new = self.expressions
        places: list[tuple[Any, str, Any]] = []
        in_strings = 0
        scope = self.scope(source)
        own = {id(node): in_string for node, in_string in own_nodes(scope)}
        parents: list[ast.AST] = [scope, *(node for node, _ in own_nodes(scope))]
        # The defaults of inner functions run in this scope.
        parents += [node.args for node in parents[1:] if isinstance(node, FUNCTIONS)]
        for parent in parents:
            for name, value in ast.iter_fields(parent):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.expr) and id(child) in own and same(child, old):
                        if own[id(child)]:
                            in_strings += 1
                        else:
                            places.append((parent, name, child))
        if len(places) != 1:
            if places:
                message = f"{self.sought()} stands there {len(places)} times"
                first = min((place[2] for place in places), key=lambda node: int(node.lineno))
                raise Drift("ambiguous", message, source.candidate(first, self.where))
            message = f"{self.sought()} stands only inside an f-string" if in_strings else f"not found: {self.sought()}"
            raise Drift("anchor", message, nearest(source, self, self.old))
        parent, name, node = places[0]
        start, end = source.span(node)

        def mutate() -> None:
            value = getattr(parent, name)
            if isinstance(value, list):
                value[index_of(value, node)] = new
            else:
                setattr(parent, name, new)

        return Edit([Splice(start, end, source.encode(self.new.strip()))], mutate, [new], self.chain(source))

    def _edit_statement(self, source: Source) -> Edit:
        block, index = find_statement(source, self, self.old)
        statement = block[index]
        start, end = source.span(statement)
        indent = source.indent(source.line_of(start))
        code = layout(self.new, indent, source.newline)[len(indent) : -len(source.newline)]
        added = statements(self.new)

        def mutate() -> None:
            at = index_of(block, statement)
            block[at : at + 1] = statements(self.new)

        return Edit([Splice(start, end, code)], mutate, list[ast.AST](added), self.chain(source))
