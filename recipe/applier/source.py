"""One Python file as bytes and tree: byte offsets of nodes, definitions by qualified name.

Edits are made on bytes at the offsets of nodes; code is never printed from the tree, so comments, quotes and
layout of everything else stay as they were.
"""

from __future__ import annotations

import ast
import bisect
import difflib
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from .errors import Candidate, Drift
from .walk import definitions, inner_scopes, same

MODULE = "<module>"
BOM = b"\xef\xbb\xbf"
_NUMBERED = re.compile(r"([1-9][0-9]*) of ([1-9][0-9]*)")


class Source:
    """The bytes of a file and, when asked for, its tree, which may be given.

    Errors: Drift(syntax) when it is not UTF-8, or its lines do not all end with LF or all with CRLF.
    """

    def __init__(self, path: str, data: bytes, tree: ast.Module | None = None) -> None:
        self.path = path
        self.data = data
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Drift("syntax", f"{path} is not UTF-8 ({error.reason} at byte {error.start})") from None
        self.newline = _newline(path, data)
        self._tree = tree
        self._starts: list[int] | None = None
        self._scopes: dict[str, list[ast.AST]] | None = None

    @property
    def tree(self) -> ast.Module:
        """The parsed file. Errors: Drift(syntax)."""
        if self._tree is None:
            try:
                with quiet():
                    self._tree = ast.parse(self.data, filename=self.path)
            except (SyntaxError, ValueError) as error:
                raise Drift("syntax", f"{self.path} does not parse: {error}") from None
            self.check_encoding()
        return self._tree

    def check_encoding(self) -> None:
        """Errors: Drift(syntax) when Python would read the file otherwise than as UTF-8."""
        # The columns of the tree count bytes of UTF-8, whatever the file is written in.
        encoding, _ = tokenize.detect_encoding(io.BytesIO(self.data).readline)
        if not encoding.startswith("utf-8") and not self.data.isascii():
            raise Drift("syntax", f"{self.path} declares the encoding {encoding}; only UTF-8 can be edited")

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a 1-based line and a 0-based UTF-8 column, as `ast` counts them."""
        return self.starts[line - 1] + column

    @property
    def starts(self) -> list[int]:
        """Byte offset of the first character of every line."""
        if self._starts is None:
            # Lines of bytes end where those of `ast` do; a mark of byte order is no column of the first.
            self._starts = list(accumulate(map(len, self.data.splitlines(keepends=True)), initial=0))
            if len(self._starts) > 1 and not self.data.endswith(self.newline):
                self._starts.pop()
            if self.data.startswith(BOM):
                self._starts[0] = len(BOM)
        return self._starts

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
        return bisect.bisect_right(self.starts, offset)

    def line_start(self, line: int) -> int:
        return self.starts[line - 1]

    def line_end(self, line: int) -> int:
        """Offset of the line's end, before its newline."""
        if line < len(self.starts):
            return self.starts[line] - len(self.newline)
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

    def chains(self, name: str) -> list[list[Any]]:
        """Every definition of that name, each with the module and the definitions around it before it."""
        found: list[list[Any]] = [[self.tree]]
        for part in [] if name == MODULE else name.split("."):
            found = [[*chain, node] for chain in found for node in inner_scopes(chain[-1]) if node.name == part]
        return found

    def chain(self, name: str, which: str | None = None) -> list[Any]:
        """Return the one definition called `name`, and before it the module and the definitions around it. `which`
        of several: `2 of 3`, or the decorator that it has, as written without the `@`.

        Errors: Drift(scope) when there is none, with the most similar name; Drift(ambiguous) when several.
        """
        found = self.chains(name)
        if not found:
            raise Drift("scope", f"no definition of {name}", self.nearest_scope(name))
        if which is not None:
            return self._which(name, which, found)
        if len(found) > 1:
            message = f"{self._times(name, found)}; say which one with `def`"
            raise Drift("ambiguous", message, self.candidate(found[0][-1], name))
        return found[0]

    def scope(self, name: str, which: str | None = None) -> Any:
        """Like `chain`, the definition only."""
        return self.chain(name, which)[-1]

    def _which(self, name: str, which: str, found: list[list[Any]]) -> list[Any]:
        numbered = _NUMBERED.fullmatch(which)
        first = found[0][-1]
        if numbered:
            number, count = map(int, numbered.groups())
            if count == len(found) and number <= count:
                return found[number - 1]
            place = None if first is self.tree else self.candidate(first, name)
            raise Drift("ambiguous", f"{self._times(name, found)}, not {count} times", place)
        try:
            wanted = ast.parse(f"({which}\n)", mode="eval").body
        except SyntaxError as error:
            raise Drift("syntax", f"the patch's own `def` does not parse: {error}: {which!r}") from None
        fitting = [
            chain for chain in found if any(same(wanted, one) for one in getattr(chain[-1], "decorator_list", ()))
        ]
        if len(fitting) == 1:
            return fitting[0]
        message = f"{len(fitting)} of {len(found)} definitions of {name} are decorated with @{which}"
        place = self.candidate((fitting[0] if fitting else found[0])[-1], name)
        raise Drift("ambiguous" if fitting else "scope", message, place)

    def _times(self, name: str, found: list[list[Any]]) -> str:
        lines = ", ".join(str(getattr(chain[-1], "lineno", 1)) for chain in found)
        return f"{name} is defined {len(found)} times (lines {lines})"

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


@contextmanager
def shallow(path: str) -> Iterator[None]:
    """Errors: Drift(syntax) for code whose tree is too deep for this Python, as no code of a person is."""
    try:
        yield
    except (RecursionError, MemoryError):
        raise Drift("syntax", f"{path} or code for it is nested too deeply to be read") from None


def _newline(path: str, data: bytes) -> bytes:
    if b"\r" not in data:
        return b"\n"
    pairs = data.count(b"\r\n")
    if data.count(b"\r") != pairs or data.count(b"\n") != pairs:
        if b"\n" not in data:
            raise Drift("syntax", f"the lines of {path} end with carriage returns; it cannot be edited safely")
        raise Drift("syntax", f"{path} mixes line endings; it cannot be edited safely")
    return b"\r\n"
