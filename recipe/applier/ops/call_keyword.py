"""call-keyword: pass one or more further keyword arguments in one call."""

from __future__ import annotations

import ast
from typing import Any

from ..errors import Candidate, Drift
from ..snippet import argument, expression
from ..source import Source
from ..walk import own_nodes, same
from .base import Edit, Operation, add_element, first_element
from .statement import nearest


class CallKeyword(Operation):
    """`in`, `call` (callee as source), `add` {keyword: expression}, optional `where` {keyword: expression}."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        self.callee = expression(spec["call"])
        # Sorted, because the canonical form of a patch set does not keep the order in which they were written.
        self.add = {argument(name): expression(text) for name, text in sorted(spec["add"].items())}
        self.condition = {argument(name): expression(text) for name, text in spec.get("where", {}).items()}

    def sought(self) -> str:
        condition = "".join(f", {name}={text}" for name, text in self.spec.get("where", {}).items())
        return f"one call of {self.spec['call']}(...{condition}) in {self.where}"

    def done(self, source: Source) -> bool:
        call = self._call(source)
        present = [name for name in self.add if _keyword(call, name) is not None]
        for name in present:
            if not same(_keyword(call, name), self.add[name]):
                found = ast.unparse(_keyword(call, name))  # type: ignore[arg-type]
                raise Drift(
                    "conflict",
                    f"{self.spec['call']}(...) in {self.where} already has {name}={found}",
                    source.candidate(call, self.where),
                )
        if present and len(present) < len(self.add):
            missing = ", ".join(sorted(set(self.add) - set(present)))
            message = f"{self.spec['call']}(...) in {self.where} has some of the keywords; not {missing}"
            raise Drift("partial", message, source.candidate(call, self.where))
        return bool(present)

    def edit(self, source: Source) -> Edit:
        call = self._call(source)
        if call.args and source.span(call.args[-1])[1] == source.span(call)[1]:
            message = "the only argument is a bare generator, which needs parentheses of its own"
            raise Drift("syntax", message, source.candidate(call, self.where))
        closing = source.span(call)[1] - 1
        arguments = [*call.args, *(keyword for keyword in call.keywords)]
        text = ", ".join(f"{name}={self.spec['add'][name].strip()}" for name in self.add)
        if arguments:
            final: Any = max(arguments, key=lambda node: source.span(node)[1])
            start, end = source.span(final)
            if isinstance(final, ast.keyword):
                end = source.span(final.value)[1]
            splice = add_element(source, start, end, closing, text)
        else:
            splice = first_element(source, closing, text)

        def mutate() -> None:
            call.keywords.extend(ast.keyword(arg=name, value=value) for name, value in self.add.items())

        return Edit([splice], mutate, list(self.add.values()), self.chain(source))

    def _call(self, source: Source) -> ast.Call:
        scope = self.scope(source)
        calls: list[ast.Call] = []
        in_strings = 0
        for node, in_string in own_nodes(scope):
            if isinstance(node, ast.Call) and same(node.func, self.callee):
                if in_string:
                    in_strings += 1
                else:
                    calls.append(node)
        wanted = [
            call for call in calls if all(same(_keyword(call, name), value) for name, value in self.condition.items())
        ]
        if len(wanted) == 1:
            return wanted[0]
        if wanted:
            lines = ", ".join(str(call.lineno) for call in sorted(wanted, key=lambda call: call.lineno))
            message = f"{len(wanted)} calls match {self.sought()} (lines {lines})"
            raise Drift("ambiguous", message, source.candidate(min(wanted, key=lambda c: c.lineno), self.where))
        if calls:
            raise Drift("anchor", f"not found: {self.sought()}", source.candidate(calls[0], self.where))
        message = f"not found: {self.sought()}"
        if in_strings:
            message = f"{self.sought()}: only inside an f-string, where code cannot be edited safely"
        raise Drift("anchor", message, self._elsewhere(source))

    def _elsewhere(self, source: Source) -> Candidate | None:
        for name, nodes in source.scopes.items():
            for scope in nodes:
                for node, in_string in own_nodes(scope):
                    if isinstance(node, ast.Call) and not in_string and same(node.func, self.callee):
                        return source.candidate(node, name)
        return nearest(source, self, f"{self.spec['call']}(")


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
