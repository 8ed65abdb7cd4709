"""Exit codes and errors that a user can cause. Every error says where, what, and what to write instead."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """What a command's exit status means (CONTRACT: Commands)."""

    OK = 0
    USAGE = 1
    NOT_DONE = 2
    NEEDS_OPERATOR = 3
    MISMATCH = 4
    UNREACHABLE = 5
    BUSY = 6


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: `where: message — hint`."""

    message: str
    where: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} — {self.hint}" if self.hint else text


class HallmarkError(Exception):
    """Base of all errors that end a command without a traceback."""

    exit = Exit.USAGE

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.problems: tuple[Problem, ...] = (Problem(message, where, hint),)
        # What a command had measured until then, for --json: gates, steps.
        self.details: dict[str, Any] = {}
        super().__init__(message)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class ConfigError(HallmarkError):
    """One or more mistakes in what the user wrote; all of a file's are reported together."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        self.details = {}
        Exception.__init__(self, str(self))


class Refused(HallmarkError):
    """Not done; what was before still holds (drift, unsupported version, failed gate, missing certificate)."""

    exit = Exit.NOT_DONE


class NeedsOperator(HallmarkError):
    """Changed and not restored; the message says what is where."""

    exit = Exit.NEEDS_OPERATOR


class Mismatch(HallmarkError):
    """What is there is not what was recorded."""

    exit = Exit.MISMATCH


class Unreachable(HallmarkError):
    """A node, engine, registry or package index could not be reached."""

    exit = Exit.UNREACHABLE


class Busy(HallmarkError):
    """Somebody else holds the lock; the message says who, since when and why."""

    exit = Exit.BUSY
