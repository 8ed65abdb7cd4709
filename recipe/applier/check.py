"""Checks on the result of a file's edits, before a byte is written: intended change only, names bound."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from .errors import Drift
from .names import Names, around, local
from .ops.base import Edit
from .source import MODULE, Source
from .walk import FUNCTIONS, own_nodes, same

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def only_intended(old: Source, new: Source, edits: list[Edit]) -> None:
    """Compare the new tree with the old one to which every edit's `mutate` was applied.

    The old tree is changed by this. Edits on raw text (no `mutate`) leave out the comparison of the top-level
    statements that they touch. Errors: Drift(syntax) with the first line that came out otherwise.
    """
    comparison = _Comparison(old, new, edits)
    # In the order of the bytes, as neighbours find their place by what stands there already.
    for edit in sorted(edits, key=lambda edit: min(splice.start for splice in edit.splices)):
        if edit.mutate is not None:
            edit.mutate()
    raw = [splice for edit in edits if edit.mutate is None for splice in edit.splices]
    if not raw:
        if not comparison.blocks(old.tree.body, new.tree.body):
            raise Drift("syntax", "the edit would add or remove a top-level statement that it does not name")
    elif len(old.tree.body) == len(new.tree.body):
        for expected, found in zip(old.tree.body, new.tree.body, strict=True):
            start, end = comparison.spans.get(id(expected), (0, 0))
            if not any(splice.start < end and start < max(splice.end, splice.start + 1) for splice in raw):
                comparison.statements(expected, found)


class _Comparison:
    """Of two trees, statement by statement: a complete statement with the same bytes has the same tree, so only
    those whose bytes differ are walked."""

    def __init__(self, old: Source, new: Source, edits: Iterable[Edit]) -> None:
        self.old, self.new = old, new
        self.places = sorted({(splice.start, splice.end) for edit in edits for splice in edit.splices})
        # Where the statements stand that are in the old file; what edits add has no place there.
        self.spans: dict[int, tuple[int, int]] = {}
        self._note(old.tree.body)

    def _note(self, block: list[Any]) -> None:
        for node in block:
            if not hasattr(node, "lineno"):
                touched = True
            else:
                start, end = self.spans[id(node)] = self.old.span(node)
                touched = any(start <= place[1] and place[0] <= end for place in self.places)
            if touched:
                for name in _BLOCKS:
                    self._note(getattr(node, name, []))

    def blocks(self, expected: list[Any], found: list[Any]) -> bool:
        """Compare statement lists; False when they are not of the same length."""
        for left, right in zip(expected, found, strict=False):
            self.statements(left, right)
        return len(expected) == len(found)

    def statements(self, expected: Any, found: Any) -> None:
        if expected is found:
            return
        if id(expected) in self.spans and type(expected) is type(found):
            start, end = self.spans[id(expected)]
            if not any(start <= place[1] and place[0] <= end for place in self.places):
                first, last = self.new.span(found)
                if self.old.data[start:end] == self.new.data[first:last]:
                    return
        wrong = type(expected) is not type(found)
        for name in expected._fields if not wrong else ():
            left, right = getattr(expected, name, None), getattr(found, name, None)
            if name in _BLOCKS and isinstance(left, list) and isinstance(right, list):
                wrong = wrong or not self.blocks(left, right)
            elif name != "type_comment" and not same(left, right):
                wrong = True
        if wrong:
            line = getattr(found, "lineno", None) or found.pattern.lineno
            raise Drift("syntax", f"the edit would change the meaning of line {line} in another way too")


class Unbound:
    """Finds names that edits read and that nothing binds: their scope, comprehensions and lambdas around their
    place, the module, or builtins. Made before `only_intended`, asked after it: that puts into the old tree what the
    edits bring."""

    def __init__(self, old: Source, edits: list[Edit]) -> None:
        self.edits = [edit for edit in edits if edit.uses or edit.annotations]
        self.raw = any(edit.mutate is None for edit in edits)
        self.old = old
        self.around = [around(_enclosing(old, edit.chain[-1], edit.splices[0].start)) for edit in self.edits]

    def find(self, new: Source) -> list[tuple[Edit, list[str]]]:
        """The edits that have such names, with the names."""
        if not self.edits:
            return []
        names = Names(new.tree if self.raw else self.old.tree, walrus=b":=" in new.data)
        found = []
        for edit, enclosing in zip(self.edits, self.around, strict=True):
            # Raw text is not put into the old tree.
            where = ".".join(scope.name for scope in edit.chain[1:]) or MODULE
            chains = new.chains(where) if self.raw else []
            missing = min(
                (names.missing(edit.uses, edit.annotations, chain, enclosing) for chain in chains or [edit.chain]),
                key=len,
            )
            if missing:
                found.append((edit, sorted(missing)))
        return found


class Captured:
    """Finds names that a function reads from outside and that the edits would make its own, so that its other code
    would read something else, or nothing. Made before `only_intended`, asked after it."""

    def __init__(self, scopes: Iterable[Any], data: bytes) -> None:
        self.functions = {id(scope): scope for scope in scopes if isinstance(scope, FUNCTIONS)}
        self.own = {key: local(scope, walrus=b":=" in data) for key, scope in self.functions.items()}
        self.read = {key: _loads(scope) for key, scope in self.functions.items()}

    def find(self, data: bytes) -> list[tuple[Any, list[str]]]:
        """The functions that have such names, with the names; `data` is the new file."""
        found = []
        for key, scope in self.functions.items():
            taken = local(scope, walrus=b":=" in data) - self.own[key]
            left = _loads(scope) if taken else {}
            # What comprehensions and lambdas bind for themselves stays theirs.
            inner = around(node for node, _ in own_nodes(scope)) if taken else set()
            names = {name for node, name in self.read[key].items() if node in left} & taken - inner
            if names:
                found.append((scope, sorted(names)))
        return found


def _loads(scope: Any) -> dict[int, str]:
    """The names that a scope itself reads, by the identity of the node."""
    nodes = (node for node, _ in own_nodes(scope))
    return {id(node): node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _enclosing(source: Source, scope: Any, at: int) -> list[ast.AST]:
    """The nodes of a scope around an offset."""
    found, stack = [], [*ast.iter_child_nodes(scope)]
    while stack:
        node = stack.pop()
        if hasattr(node, "lineno"):
            start, end = source.span(node)
            if not start < at < end:
                continue
            found.append(node)
        stack.extend(ast.iter_child_nodes(node))
    return found
