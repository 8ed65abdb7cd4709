"""What a rule reports: a severity, the reason of the rule, and what to write instead."""

from dataclasses import dataclass
from typing import Literal

from recipe.config.load import Loaded
from recipe.config.models import Cluster, Profile
from recipe.config.source import Loc, dotted
from recipe.errors import Problem

Severity = Literal["error", "warning", "note"]
File = Loaded[Profile] | Loaded[Cluster]


@dataclass(frozen=True)
class Finding:
    """One finding at `where` (`file:line`)."""

    severity: Severity
    where: str
    message: str
    reason: str
    hint: str | None = None

    @property
    def problem(self) -> Problem:
        """The finding as one line of an error message."""
        return Problem(f"{self.message}: {self.reason}", self.where, self.hint)

    @property
    def place(self) -> tuple[str, int]:
        """File and line, to sort by."""
        file, _, line = self.where.rpartition(":")
        return file, int(line)

    def __str__(self) -> str:
        return str(self.problem)


def finding(severity: Severity, file: File, loc: Loc, message: str, *, why: str, hint: str | None = None) -> Finding:
    """A finding about the value at `loc` of a file."""
    return Finding(severity, file.document.where(loc), f"{dotted(loc)}: {message}", why, hint)
