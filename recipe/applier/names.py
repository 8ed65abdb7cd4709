"""Which names a scope binds, told from its tree: what an edit reads must be bound where it runs."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from typing import Any

from .walk import FUNCTIONS, SCOPES

_BUILTINS = {*dir(builtins), "__file__", "__name__", "__doc__", "__package__", "__spec__", "__class__"}
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_TARGETS = ("targets", "target", "items", "pattern")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Names:
    """The names of one module. Its trees may be changed until the first question. `walrus`: it may have a `:=`."""

    def __init__(self, module: ast.Module, *, walrus: bool) -> None:
        self.walrus = walrus
        self._bound: dict[int, tuple[set[str], set[str]]] = {}
        # A star import may bind anything, which cannot be told from the file alone.
        self.star = any(
            isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
            for node in _statements(module.body)
        )
        self.deferred = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in module.body
        )

    def missing(
        self, uses: list[ast.AST], annotations: list[ast.AST], chain: list[Any], enclosing: set[str]
    ) -> set[str]:
        """The names that `uses` and `annotations` read, and that neither they nor the scopes of `chain` bind, nor
        what encloses them."""
        if self.star:
            return set()
        read, typed = _read(uses) - enclosing, _read(annotations) - enclosing
        for number, scope in enumerate(chain):
            # Class scopes are not seen from the functions inside them, only from the class body itself.
            if (read or typed) and not (isinstance(scope, ast.ClassDef) and number < len(chain) - 1):
                bound, checked = self._of(scope)
                read -= bound
                typed -= bound | checked if self.deferred else bound
        for root in uses if read else []:
            read -= _bound_anywhere(root)
        return read | typed

    def _of(self, scope: Any) -> tuple[set[str], set[str]]:
        """What a scope binds when it runs, and what it binds for type checkers only."""
        if id(scope) not in self._bound:
            bound = set(_parameters(scope.args)) if isinstance(scope, FUNCTIONS) else set()
            bound.update(parameter.name for parameter in getattr(scope, "type_params", ()))
            bound.update(_bound(scope.body, self.walrus, checking=False))
            self._bound[id(scope)] = bound, set(_bound(scope.body, self.walrus, checking=True))
        return self._bound[id(scope)]


def around(enclosing: Iterable[ast.AST]) -> set[str]:
    """The names that comprehensions and lambdas among these nodes bind."""
    found: set[str] = set()
    for node in enclosing:
        if isinstance(node, ast.Lambda):
            found.update(_parameters(node.args))
        elif isinstance(node, _COMPREHENSIONS):
            for part in node.generators:
                found |= _bound_anywhere(part.target)
    return found


def local(function: Any, *, walrus: bool) -> set[str]:
    """The names that are a function's own wherever they stand in it. `walrus`: it may have a `:=`."""
    found = set(_parameters(function.args))
    for checking in (False, True):
        found.update(_bound(function.body, walrus, checking=checking))
    declared = (node for node in _statements(function.body) if isinstance(node, (ast.Global, ast.Nonlocal)))
    return found.difference(*(node.names for node in declared))


def _read(roots: list[ast.AST]) -> set[str]:
    nodes = (node for root in roots for node in ast.walk(root))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)} - _BUILTINS


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    yield from (argument.arg for argument in every if argument is not None)


def _statements(block: list[Any]) -> Iterator[Any]:
    """The statements of a scope, in all its blocks."""
    for statement in block:
        yield statement
        if isinstance(statement, SCOPES):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, name, []))
        for name in ("handlers", "cases"):
            for part in getattr(statement, name, []):
                yield part
                yield from _statements(part.body)


def _bound(block: list[Any], walrus: bool, *, checking: bool) -> Iterator[str]:
    """Names that the statements bind; with `checking` those under `if TYPE_CHECKING`, else all others."""
    for statement in block:
        if isinstance(statement, ast.If) and _type_checking(statement.test):
            yield from _bound(statement.orelse, walrus, checking=checking)
            if checking:
                for inner in _statements(statement.body):
                    yield from _binds(inner, walrus)
            continue
        if not checking:
            yield from _binds(statement, walrus)
        if isinstance(statement, SCOPES):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _bound(getattr(statement, name, []), walrus, checking=checking)
        for name in ("handlers", "cases"):
            for part in getattr(statement, name, []):
                if not checking:
                    yield from _binds(part, walrus)
                yield from _bound(part.body, walrus, checking=checking)


def _type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _binds(statement: Any, walrus: bool) -> Iterator[str]:
    """Names that a statement binds by itself, without its blocks. Without a `:=` anywhere its values bind nothing."""
    if isinstance(statement, SCOPES):
        yield statement.name
        return
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        return
    if isinstance(statement, ast.ExceptHandler) and statement.name:
        yield statement.name
    stack = [
        child
        for name in statement._fields
        if name not in _BLOCKS and (walrus or name in _TARGETS)
        for child in _listed(getattr(statement, name, None))
        if isinstance(child, ast.AST)
    ]
    while stack:
        node: Any = stack.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id
            continue
        if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
        if isinstance(node, ast.comprehension):
            # Its target is its own; only `:=` inside of it binds in the scope.
            stack += [node.iter, *node.ifs]
            continue
        if not isinstance(node, ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))


def _bound_anywhere(root: ast.AST) -> set[str]:
    """What code binds anywhere in it: targets, comprehensions, arguments, imports, inner definitions."""
    found = set()
    for node in ast.walk(root):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, (*SCOPES, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
    return found
