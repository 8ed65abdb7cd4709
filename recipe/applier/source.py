"""One Python file as bytes and tree: byte offsets of nodes, qualified names, structural comparison.

Edits are made on bytes at the offsets of nodes; code is never printed from the tree, so comments, quotes and
layout of everything else stay as they were.
"""

from __future__ import annotations

import ast
import bisect
import difflib
import hashlib
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .errors import Candidate, Drift

MODULE = "<module>"
BOM = b"\xef\xbb\xbf"
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NEWLINE = re.compile(rb"\r\n|\r|\n")


class Source:
    """The bytes of a file and, when asked for, its tree.

    Errors: Drift(syntax) when it is not UTF-8, or its lines do not all end with LF or all with CRLF.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Drift("syntax", f"{path} is not UTF-8 ({error.reason} at byte {error.start})") from None
        endings = set(_NEWLINE.findall(data))
        if len(endings) > 1:
            raise Drift("syntax", f"{path} mixes line endings; it cannot be edited safely")
        self.newline = endings.pop() if endings else b"\n"
        if self.newline == b"\r":
            raise Drift("syntax", f"the lines of {path} end with carriage returns; it cannot be edited safely")
        self._tree: ast.Module | None = None
        start = len(BOM) if data.startswith(BOM) else 0
        self._starts = [start, *(found.end() for found in _NEWLINE.finditer(data))]
        self._scopes: dict[str, list[ast.AST]] | None = None

    @property
    def tree(self) -> ast.Module:
        """The parsed file. Errors: Drift(syntax)."""
        if self._tree is None:
            try:
                encoding, _ = tokenize.detect_encoding(io.BytesIO(self.data).readline)
                with quiet():
                    self._tree = ast.parse(self.data, filename=self.path)
            except (SyntaxError, ValueError) as error:
                raise Drift("syntax", f"{self.path} does not parse: {error}") from None
            # The columns of the tree count bytes of UTF-8, whatever the file is written in.
            if not encoding.startswith("utf-8") and not self.data.isascii():
                raise Drift("syntax", f"{self.path} declares the encoding {encoding}; only UTF-8 can be edited")
        return self._tree

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a 1-based line and a 0-based UTF-8 column, as `ast` counts them."""
        return self._starts[line - 1] + column

    def span(self, node: Any) -> tuple[int, int]:
        """Byte offsets (start, end) of a node; a decorated definition starts at its first decorator."""
        line, column = node.lineno, node.col_offset
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            line = min(decorator.lineno for decorator in decorators)
            return self.line_start(line) + len(self.indent(line)), self.offset(node.end_lineno, node.end_col_offset)
        return self.offset(line, column), self.offset(node.end_lineno, node.end_col_offset)

    def encode(self, code: str) -> bytes:
        """Code that a patch brings, with the line endings of this file."""
        return code.replace("\r\n", "\n").encode().replace(b"\n", self.newline)

    def line_of(self, offset: int) -> int:
        """1-based line of a byte offset."""
        return bisect.bisect_right(self._starts, offset)

    def line_start(self, line: int) -> int:
        return self._starts[line - 1]

    def line_end(self, line: int) -> int:
        """Offset of the line's end, before its newline."""
        if line < len(self._starts):
            return self._starts[line] - len(self.newline)
        return len(self.data)

    def indent(self, line: int) -> bytes:
        content = self.data[self.line_start(line) : self.line_end(line)]
        return content[: len(content) - len(content.lstrip(b" \t"))]

    @property
    def scopes(self) -> dict[str, list[ast.AST]]:
        """Dotted qualified name → the definitions of that name; `<module>` is the file itself."""
        if self._scopes is None:
            self._scopes = {MODULE: [self.tree]}
            for name, node in definitions(self.tree, ""):
                self._scopes.setdefault(name, []).append(node)
        return self._scopes

    def scope(self, name: str) -> Any:
        """Return the one definition called `name`.

        Errors: Drift(scope) when there is none, with the most similar name; Drift(ambiguous) when several.
        """
        found = self.scopes.get(name, [])
        if len(found) == 1:
            return found[0]
        if found:
            lines = ", ".join(str(getattr(node, "lineno", 1)) for node in found)
            message = f"{name} is defined {len(found)} times (lines {lines})"
            raise Drift("ambiguous", message, self.candidate(found[0], name))
        raise Drift("scope", f"no definition of {name}", self.nearest_scope(name))

    def nearest_scope(self, name: str) -> Candidate | None:
        """The definition whose qualified name is most like `name`; the same parent counts more."""
        parent, _, leaf = name.rpartition(".")

        def likeness(other: str) -> float:
            other_parent, _, other_leaf = other.rpartition(".")
            return (
                difflib.SequenceMatcher(None, leaf, other_leaf).ratio()
                + difflib.SequenceMatcher(None, parent, other_parent).ratio()
            )

        names = [other for other in self.scopes if other != MODULE]
        if not names:
            return None
        best = max(names, key=likeness)
        return self.candidate(self.scopes[best][0], best)

    def candidate(self, node: Any, where: str) -> Candidate:
        """The place of a node of scope `where`."""
        return self.candidate_at(node.lineno, where)

    def candidate_at(self, line: int, where: str) -> Candidate:
        text = self.data[self.line_start(line) : self.line_end(line)].decode("utf-8")
        return Candidate(line, where, text.strip())


@contextmanager
def quiet() -> Iterator[None]:
    """Python's warnings about the code of others are no concern of whoever patches it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield (qualified name, node) of every def and class below `node`, through `if`, `try` and `with`."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, []):
            if isinstance(child, SCOPES):
                name = f"{prefix}{child.name}"
                yield name, child
                yield from definitions(child, f"{name}.")
            else:
                yield from definitions(child, prefix)


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
        in_string = in_string or isinstance(node, ast.JoinedStr)
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
    """Compare two trees by structure; positions and expression contexts do not count."""
    # With a stack of its own: a sum of a thousand strings is a tree of depth a thousand.
    stack = [(left, right)]
    while stack:
        left, right = stack.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, ast.AST):
            stack.extend(
                (getattr(left, name, None), getattr(right, name, None))
                for name in left._fields
                if name not in ("ctx", "kind", "type_comment")
            )
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            stack.extend(zip(left, right, strict=True))
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
            if name in ("ctx", "kind", "type_comment") or value is None or value == []:
                continue
            fields.append(f"{name}={_canonical(value)}")
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_canonical, node))}]"
    return repr(node)
