"""Finding one statement of a scope by its structure, shared by insert and replace."""

from __future__ import annotations

import ast
import difflib
from typing import Any

from ..errors import Candidate, Drift
from ..snippet import header
from ..source import MODULE, Source
from ..walk import bodies, same
from .base import Operation

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def find_statement(source: Source, op: Operation, anchor: str) -> tuple[list[ast.stmt], int]:
    """Return (statement list, index) of the one statement of the operation's scope that equals `anchor`.

    An anchor that ends with a colon is the header of a compound statement; its blocks may hold anything.
    Errors: Drift(anchor) with the most similar statement, Drift(ambiguous).
    """
    found, where = statements_like(source, op, anchor), op.where
    if len(found) == 1:
        return found[0]
    if found:
        lines = ", ".join(str(block[index].lineno) for block, index in found)
        message = f"{len(found)} statements of {where} equal {anchor.strip()!r} (lines {lines})"
        block, index = found[0]
        raise Drift("ambiguous", message, source.candidate(block[index], where))
    raise Drift("anchor", f"no statement of {where} equals {anchor.strip()!r}", nearest(source, op, anchor))


def statements_like(source: Source, op: Operation, anchor: str) -> list[tuple[list[ast.stmt], int]]:
    """Every (statement list, index) of the operation's scope where `anchor` stands."""
    wanted, only_header = header(anchor)
    return [
        (block, index)
        for block in bodies(op.scope(source))
        for index, statement in enumerate(block)
        if (_same_header(statement, wanted) if only_header else same(statement, wanted))
    ]


def _same_header(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    return all(
        same(getattr(left, name, None), getattr(right, name, None))
        for name in left._fields
        if name not in _BLOCKS and name != "type_comment"
    )


def nearest(source: Source, op: Operation, anchor: str) -> Candidate | None:
    """The statement of the operation's scope whose first line is most like the anchor's; else the best of the
    whole file."""
    first = anchor.strip().splitlines()[0]

    def best(name: str, scopes: list[ast.AST]) -> tuple[float, Candidate] | None:
        options = [
            (difflib.SequenceMatcher(None, first, candidate.text).ratio(), candidate)
            for scope in scopes
            for block in bodies(scope)
            for candidate in (source.candidate(statement, name) for statement in block)
        ]
        return max(options, key=lambda option: option[0], default=None)

    here = best(op.where, [op.scope(source)])
    if here and here[0] > 0.6:
        return here[1]
    others = ((name, nodes) for name, nodes in source.scopes.items() if name != MODULE)
    everywhere = [found for name, nodes in others if (found := best(name, nodes))]
    if here:
        everywhere.append(here)
    return max(everywhere, key=lambda option: option[0])[1] if everywhere else None


def alone_on_its_lines(source: Source, statement: ast.stmt, where: str) -> tuple[int, int]:
    """Offsets of the statement's first line start and of its last line end (before the newline).

    Errors: Drift(syntax) when it shares a line with other code.
    """
    start, end = source.span(statement)
    first = source.line_start(source.line_of(start))
    last = source.line_end(source.line_of(end))
    tail = source.data[end:last].strip()
    if source.data[first:start].strip() or (tail and not tail.startswith(b"#")):
        message = f"the statement on line {statement.lineno} shares its line with other code"
        raise Drift("syntax", message, source.candidate(statement, where))
    return first, last
