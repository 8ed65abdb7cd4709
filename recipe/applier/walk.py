"""Walks over trees: which definitions, statements and nodes belong to a scope; comparison of structure.

Positions never count: two trees are the same when they were written the same but for layout.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import Any

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Strings with code in them; from 3.14 on there are two kinds.
STRINGS = (ast.JoinedStr, getattr(ast, "TemplateStr", ast.JoinedStr))
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
# Positions aside: how a name is used follows from where it stands, and `u` before a string says nothing.
_NOTHING = frozenset(("ctx", "kind", "type_comment"))


def inner_scopes(node: ast.AST) -> Iterator[Any]:
    """Yield the defs and classes directly in this scope, also those inside `if`, `try`, `with`, `for` and `match`."""
    for name in _BLOCKS:
        for child in getattr(node, name, ()):
            if isinstance(child, SCOPES):
                yield child
            elif hasattr(child, "body") or hasattr(child, "cases"):
                yield from inner_scopes(child)


def definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield (qualified name, node) of every def and class below `node`."""
    for child in inner_scopes(node):
        name = f"{prefix}{child.name}"
        yield name, child
        yield from definitions(child, f"{name}.")


def bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every statement list of this scope, not of the scopes inside it."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block
            for statement in block:
                if not isinstance(statement, SCOPES):
                    yield from bodies(statement)
    for name in ("handlers", "cases"):
        for part in getattr(node, name, []):
            yield from bodies(part)


def own_nodes(scope: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Yield (node, inside an f-string) for the nodes that belong to this scope.

    Bodies of nested definitions are left out; their decorators and defaults run in this scope and are kept.
    """
    stack: list[tuple[ast.AST, bool]] = [(child, False) for child in _own_children(scope)]
    while stack:
        node, in_string = stack.pop()
        yield node, in_string
        in_string = in_string or isinstance(node, STRINGS)
        children: Any = ast.iter_child_nodes(node)
        if isinstance(node, FUNCTIONS):
            children = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif isinstance(node, ast.ClassDef):
            children = [*node.decorator_list, *node.bases, *node.keywords]
        stack.extend((child, in_string) for child in children)


def _own_children(scope: ast.AST) -> list[ast.AST]:
    body: list[ast.AST] = getattr(scope, "body", [])
    return body


def same(left: Any, right: Any) -> bool:
    """Compare two trees, or lists of trees, by structure."""
    # With a stack of its own: a sum of a thousand strings is a tree of depth a thousand.
    stack = [(left, right)]
    while stack:
        left, right = stack.pop()
        if left is right:
            continue
        kind = type(left)
        if kind is not type(right):
            return False
        if kind is list:
            if len(left) != len(right):
                return False
            stack.extend(zip(left, right, strict=True))
        elif isinstance(left, ast.AST):
            for name in left._fields:
                if name not in _NOTHING:
                    stack.append((getattr(left, name, None), getattr(right, name, None)))
        elif left != right:
            return False
    return True


def fingerprint(node: Any) -> str:
    """sha256 of the structure of a node or list of nodes, equal on every Python version."""
    return hashlib.sha256(_canonical(node).encode()).hexdigest()


def _canonical(node: Any) -> str:
    if isinstance(node, ast.AST):
        fields = []
        for name in node._fields:
            value = getattr(node, name, None)
            if name in _NOTHING or value is None or value == []:
                continue
            if isinstance(node, STRINGS) and name == "values":
                # Python 3.12.1 has an empty piece of text where others have none.
                value = [part for part in value if not (isinstance(part, ast.Constant) and part.value == "")]
            fields.append(f"{name}={_canonical(value)}")
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_canonical, node))}]"
    # Which characters repr() shows as they are differs between versions.
    return ascii(node)
