"""Reading of ranks' logs: lines without colours and process prefixes, and who is in a signal's scope."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
# vLLM's own mark of the process that wrote a line: (APIServer pid=1548), (Worker_TP0 pid=7), (EngineCore pid=9)
_PROCESS = re.compile(r"\((?:[\w.-]+ )?pid=\d+\) ?")


@dataclass(frozen=True)
class RankLog:
    """What one rank wrote since its start; rank 0 is the head. `current`: of this start, not an earlier one."""

    node: str
    rank: int
    text: str
    current: bool = True
    # When each line was written, in ISO 8601, where the engine knows; else vLLM's own lines say when.
    times: tuple[str, ...] = ()
    # When the last of it was written, likewise; "" where nobody knows.
    ended: str = ""


def colourless(text: str) -> str:
    """The text without colours and other commands to a terminal."""
    return _ANSI.sub("", text)


def plain(line: str) -> str:
    """A line without colours and process prefixes."""
    return _PROCESS.sub("", colourless(line)).rstrip()


def lines(text: str) -> list[str]:
    """Split a log into lines that are not empty; each state of a progress bar is a line of its own."""
    plain = _PROCESS.sub("", colourless(text))
    return [line for line in (raw.rstrip() for raw in plain.splitlines()) if line]


def matching(pattern: str, found: Iterable[str]) -> list[str]:
    """The lines in which the regular expression is found."""
    expression = re.compile(pattern)
    return [line for line in found if expression.search(line)]


def in_scope(ranks: str, rank: int) -> bool:
    """Whether a signal for `all`, `head` or `workers` concerns this rank."""
    return ranks == "all" or (rank == 0) == (ranks == "head")
