"""Explains what ranks wrote by the known errors. Pure; the file is read by recipe.config.known_errors."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launch.plan.logs import RankLog, lines
from recipe.config.known_errors import KnownError


@dataclass(frozen=True)
class Explained:
    """A known error that was found: its first line and the ranks that wrote one (names of nodes)."""

    error: KnownError
    line: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.nodes)}: {self.line.strip()[:200]}: {self.error.means} — {self.error.remedy}"


def explain(logs: Iterable[RankLog], known: Sequence[KnownError]) -> list[Explained]:
    """The known errors in the ranks' logs, in the order of `known`, in which the more telling come first."""
    read = [(log.node, lines(log.text)) for log in logs]
    found = []
    for error in known:
        expression = re.compile(error.pattern)
        hits = [(node, line) for node, text in read if (line := _first(expression, text)) is not None]
        if hits:
            found.append(Explained(error, hits[0][1], tuple(node for node, _ in hits)))
    return found


def _first(expression: re.Pattern[str], text: Sequence[str]) -> str | None:
    return next((line for line in text if expression.search(line)), None)
