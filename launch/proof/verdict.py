"""What judging a gate gives: a verdict, the figure and its bar, and a sentence. Shared by the judges of all kinds."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Raw = Mapping[str, Any]


class Verdict(StrEnum):
    """Only a pass certifies; inconclusive means that the measurement says nothing either way."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Judgement:
    """`value` is the one figure that a table shows, `bar` the thresholds as JSON-able data."""

    verdict: Verdict
    value: float | int | str | None
    bar: dict[str, Any]
    summary: str


def short(text: str) -> str:
    """The text in quotes, cut to what fits into a sentence."""
    return repr(text if len(text) <= 80 else text[:77] + "…")


def next_step(raw: Raw, otherwise: str) -> str:
    """What to try next after failed requests: another advice when the server stopped answering at all."""
    return "see whether the head still runs and what its log ends with" if "unanswered" in raw else otherwise
