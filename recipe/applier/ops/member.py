"""member: add one element to a list, tuple, set, dict or `Literal[...]` that is assigned to a name."""

from __future__ import annotations

import ast
from typing import Any

from ..errors import Drift
from ..snippet import expression
from ..source import Source
from ..walk import bodies, same
from .base import Edit, Operation, add_element, put_beside
from .statement import nearest


class Member(Operation):
    """`of` (the assigned name), `add` (an element, or {key: value}), optional `after` (a neighbour)."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        add = spec["add"]
        self.pair = isinstance(add, dict)
        if self.pair:
            if len(add) != 1:
                raise Drift("syntax", "a member edit adds exactly one entry")
            ((key, value),) = add.items()
            self.key, self.value = expression(key), expression(value)
            self.text = f"{key.strip()}: {value.strip()}"
        else:
            self.value, self.text = expression(add), add.strip()
        self.target = expression(spec["of"])
        self.after = expression(spec["after"]) if spec.get("after") else None

    def sought(self) -> str:
        return f"the {'table' if self.pair else 'collection'} {self.spec['of']} in {self.where}"

    def done(self, source: Source) -> bool:
        container = self._container(source)
        if self.pair:
            for key, value in zip(container.keys, container.values, strict=True):
                if same(key, self.key):
                    if same(value, self.value):
                        return True
                    raise Drift(
                        "conflict",
                        f"{self.spec['of']} already maps {ast.unparse(key)} to {ast.unparse(value)}",
                        source.candidate(key, self.where),
                    )
            return False
        return any(same(element, self.value) for element in _elements(container))

    def edit(self, source: Source) -> Edit:
        container = self._container(source)
        elements = container.keys if self.pair else _elements(container)
        if not elements:
            message = f"{self.spec['of']} is empty; there is no element to stand behind"
            raise Drift("anchor", message, source.candidate(container, self.where))
        index = len(elements) - 1
        if self.after is not None:
            found = [number for number, element in enumerate(elements) if same(element, self.after)]
            if len(found) != 1:
                kind = "ambiguous" if found else "anchor"
                message = f"{self.spec['of']} has {len(found)} elements {self.spec['after']}"
                raise Drift(kind, message, source.candidate(container, self.where))
            index = found[0]
        # The key of a `**spread` is None.
        neighbour = container.values[index] if self.pair else elements[index]
        start, end = source.span(elements[index] or neighbour)[0], source.span(neighbour)[1]
        closing = source.span(container)[1] - 1
        if isinstance(container, ast.Tuple) and source.data[closing : closing + 1] != b")":
            message = f"{self.spec['of']} is a tuple without parentheses"
            raise Drift("syntax", message, source.candidate(container, self.where))
        splice = add_element(source, start, end, closing, self.text)

        def mutate() -> None:
            if self.pair:
                at = put_beside(container.values, neighbour, [self.value], after=True)
                container.keys.insert(at, self.key)
                return
            if isinstance(container, ast.Subscript) and not isinstance(container.slice, ast.Tuple):
                container.slice = ast.Tuple(elts=[container.slice], ctx=ast.Load())
            collection: Any = container.slice if isinstance(container, ast.Subscript) else container
            put_beside(collection.elts, neighbour, [self.value], after=True)

        uses = [self.value, *([self.key] if self.pair else [])]
        return Edit([splice], mutate, list[ast.AST](uses), self.chain(source))

    def _container(self, source: Source) -> Any:
        found = []
        for block in bodies(self.scope(source)):
            for statement in block:
                targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
                if isinstance(statement, (ast.Assign, ast.AnnAssign)) and any(
                    same(target, self.target) for target in targets
                ):
                    found.append(statement)
        if len(found) != 1:
            kind = "ambiguous" if found else "anchor"
            close = source.candidate(found[0], self.where) if found else nearest(source, self, self.spec["of"])
            raise Drift(kind, f"{len(found)} assignments to {self.spec['of']} in {self.where}", close)
        value: Any = found[0].value
        if isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:
            value = value.args[0]
        fits = isinstance(value, ast.Dict) if self.pair else _is_collection(value)
        if not fits:
            raise Drift(
                "anchor",
                f"{self.spec['of']} is not a {'dict' if self.pair else 'list, tuple, set or Literal'} written out",
                source.candidate(found[0], self.where),
            )
        return value


def _is_collection(value: Any) -> bool:
    if isinstance(value, ast.Subscript):
        name = value.value
        return (isinstance(name, ast.Name) and name.id == "Literal") or (
            isinstance(name, ast.Attribute) and name.attr == "Literal"
        )
    return isinstance(value, (ast.List, ast.Tuple, ast.Set))


def _elements(container: Any) -> list[Any]:
    if isinstance(container, ast.Subscript):
        inner = container.slice
        return list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    return list(container.elts)
