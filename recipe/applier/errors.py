"""What can go wrong while patching: a drift belongs to one edit, an ApplierError ends the command."""

from __future__ import annotations

from dataclasses import dataclass

NOT_DONE, NEEDS_OPERATOR, MISMATCH, BUSY, USAGE = 2, 3, 4, 6, 1


@dataclass(frozen=True)
class Candidate:
    """The place that looks most like the one an edit asked for: line (1-based), qualified name, its text.

    `file` only when it is another one than the edit's.
    """

    line: int
    where: str
    text: str
    file: str | None = None


class Drift(Exception):
    """The sources are not what the edit expects.

    `kind` is one of missing-file, scope, anchor, ambiguous, partial, conflict, overlap, syntax, context, unbound,
    expectation.
    """

    def __init__(self, kind: str, message: str, nearest: Candidate | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.nearest = nearest


class ApplierError(Exception):
    """Ends the command with `exit`; the numbers are those of the `hallmark` command."""

    def __init__(self, exit: int, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.exit = exit
        self.message = message
        self.where = where
        self.hint = hint
