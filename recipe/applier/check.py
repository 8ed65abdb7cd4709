"""Checks on the result of a file's edits, before a byte is written: intended change only, names bound."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterable
from typing import Any

from .errors import Drift
from .ops.base import Edit
from .source import MODULE, Source, same

_BUILTINS = {*dir(builtins), "__file__", "__name__", "__doc__", "__package__", "__spec__", "__class__"}


def only_intended(old: Source, new: Source, edits: list[Edit]) -> None:
    """Compare the new tree with the old one to which every edit's `mutate` was applied.

    The old tree is changed by this. Edits on raw text (no `mutate`) leave out the comparison of the top-level
    statements that they touch. Errors: Drift(syntax) with the first line that came out otherwise.
    """
    raw = [splice for edit in edits if edit.mutate is None for splice in edit.splices]
    before = [(statement, old.span(statement)) for statement in old.tree.body]
    opaque = {
        id(statement)
        for statement, (start, end) in before
        if any(splice.start < end and start < max(splice.end, splice.start + 1) for splice in raw)
    }
    touched = {
        id(statement)
        for statement, (start, end) in before
        if any(start <= splice.end and splice.start <= end for edit in edits for splice in edit.splices)
    }
    texts = {id(statement): old.data[start:end] for statement, (start, end) in before}
    # In the order of the bytes, as neighbours find their place by what stands there already.
    for edit in sorted(edits, key=lambda edit: min(splice.start for splice in edit.splices)):
        if edit.mutate is not None:
            edit.mutate()
    if raw and len(old.tree.body) != len(new.tree.body):
        return
    for expected, found in zip(old.tree.body, new.tree.body, strict=False):
        if id(expected) in opaque:
            continue
        start, end = new.span(found)
        # A complete statement with the same bytes has the same tree; only what was touched is walked.
        if id(expected) not in touched and id(expected) in texts and texts[id(expected)] == new.data[start:end]:
            continue
        if not same(expected, found):
            raise Drift("syntax", f"the edit would change the meaning of line {found.lineno} in another way too")
    if len(old.tree.body) != len(new.tree.body):
        raise Drift("syntax", "the edit would add or remove a top-level statement that it does not name")


def unbound(old: Source, new: Source, edits: Iterable[Edit]) -> list[tuple[Edit, list[str]]]:
    """For each edit the names that its code reads and that nothing binds: in its scope, in comprehensions and
    lambdas around its place in `old`, in the module, or in builtins."""
    table: Any = None
    found = []
    for edit in edits:
        names = {
            node.id
            for root in edit.uses
            for node in ast.walk(root)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        } - _BUILTINS
        if not names:
            continue
        table = table or _Table(new)
        missing = {name for name in names if not table.binds(edit.scope, name, edit.uses)}
        if missing and (missing := missing - _around(old, edit)):
            found.append((edit, sorted(missing)))
    return found


def _around(source: Source, edit: Edit) -> set[str]:
    """The names that comprehensions and lambdas around the place of an edit bind."""
    at = edit.splices[0].start
    names: set[str] = set()
    for scope in source.scopes.get(edit.scope, []):
        for node in ast.walk(scope):
            if not isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                continue
            start, end = source.span(node)
            if start < at < end:
                parts = [node.args] if isinstance(node, ast.Lambda) else [part.target for part in node.generators]
                names |= {
                    part.arg if isinstance(part, ast.arg) else part.id
                    for root in parts
                    for part in ast.walk(root)
                    if isinstance(part, ast.arg) or (isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
                }
    return names


class _Table:
    def __init__(self, source: Source) -> None:
        self.top = symtable.symtable(source.data.decode("utf-8-sig"), source.path, "exec")
        self.star = any(
            isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names)
            for statement in source.tree.body
        )
        self.module = {symbol.get_name() for symbol in self.top.get_symbols() if _is_bound(symbol)}

    def binds(self, scope: str, name: str, uses: list[ast.AST]) -> bool:
        # A star import may bind anything, which cannot be told from the file alone.
        if name in self.module or self.star or _bound_within(uses, name):
            return True
        if scope == MODULE:
            return False
        return any(_bound_on(path, name) for path in _paths(self.top, scope.split(".")))


def _paths(table: Any, names: list[str]) -> Iterable[list[Any]]:
    """Yield the chain of tables of every definition that this dotted name may mean."""
    if not names:
        yield []
        return
    for child in table.get_children():
        if child.get_name() == names[0]:
            for rest in _paths(child, names[1:]):
                yield [child, *rest]
        elif child.get_type() not in ("function", "class"):
            # 3.12 puts a table for type parameters between a module and its generic definition.
            yield from _paths(child, names)


def _bound_on(path: list[Any], name: str) -> bool:
    # Class scopes are not seen from the functions inside them, only from the class body itself.
    visible = [table for table in path[:-1] if table.get_type() == "function"] + path[-1:]
    for table in visible:
        if name in table.get_identifiers():
            symbol = table.lookup(name)
            if symbol.is_local() or symbol.is_parameter() or symbol.is_imported():
                return True
    return False


def _is_bound(symbol: Any) -> bool:
    return bool(symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace())


def _bound_within(uses: list[ast.AST], name: str) -> bool:
    """Whether the added code binds the name itself: comprehension targets, lambda arguments, inner definitions."""
    for root in uses:
        for node in ast.walk(root):
            if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
                return True
            if isinstance(node, ast.arg) and node.arg == name:
                return True
            if isinstance(node, ast.alias) and (node.asname or node.name.split(".")[0]) == name:
                return True
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return True
            if isinstance(node, ast.ExceptHandler) and node.name == name:
                return True
    return False
