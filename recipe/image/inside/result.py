"""What a check says: passed, failed with what to do about it, or skipped with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PASS, FAIL, SKIPPED = "pass", "fail", "skipped"


@dataclass
class Result:
    """One check. `detail`: what was seen, or why it was skipped; `problems`: what is wrong, each with its remedy."""

    check: str
    verdict: str
    detail: str
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"check": self.check, "verdict": self.verdict, "detail": self.detail, "problems": self.problems}


def passed(check: str, detail: str) -> Result:
    return Result(check, PASS, detail)


def skipped(check: str, reason: str) -> Result:
    return Result(check, SKIPPED, reason)


def judged(check: str, detail: str, problems: list[str]) -> Result:
    """Passed when there are no problems."""
    return Result(check, FAIL if problems else PASS, detail, problems)
