"""Finds what went wrong first in the logs of a group's ranks, and the lines that tell it. Pure.

One rank's end makes the others fail too, seconds later and with words that say nothing of the cause; so the first error
by time counts, and what is known to be a consequence only where nothing else is found.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launch.plan.logs import RankLog, plain

# So many lines are shown.
MOST_LINES = 10
# A traceback of vLLM is rarely longer, and its end is what matters.
_LONGEST = 400
_LEVEL = re.compile(r"^(?:\[[^\]]*\]:?)?\s*(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b:?")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
# The end of a traceback, or an error that is told without one; vLLM's own prefix may stand before it.
_RAISED = re.compile(r"^(?:ERROR [-\d]+ [:\d]+ \[[^\]]*\] ?)?(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b(?::|$)")
_USAGE = re.compile(r"\berror: ")
_NAMED = re.compile(r"\b\w+(?:Error|Exception)\b")
_CONSEQUENCE = re.compile(
    r"[Ss]ee root cause above|EngineDeadError|Engine core initialization failed|died unexpectedly|Broken pipe"
    r"|Connection (?:closed|reset) by peer|BrokenPipeError|ConnectionResetError|clients joined"
    r"|RPC call to \w+ timed out|cancelled|EngineCore encountered"
)
# INFO 12-01 01:30:39 of vLLM; [W1201 01:30:37.04 and [rank0]:[E1201 … of torch; ISO 8601; a bare time.
_VLLM = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d-\d\d) (\d\d:\d\d:\d\d)")
_TORCH = re.compile(r"\[[DIWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d)")
_ISO = re.compile(r"\b\d{4}-(\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d+)?)")
_TIME = re.compile(r"\b(\d\d:\d\d:\d\d)\b")


@dataclass(frozen=True)
class Cause:
    """The first error of a group: whose it is, when (as its log says, "" when it does not), and at most ten lines that
    tell it, without colours and prefixes. The last of a traceback's lines is the error itself; `told` is that line."""

    node: str
    rank: int
    at: str
    lines: tuple[str, ...]
    told: str


def first(logs: Sequence[RankLog]) -> Cause | None:
    """The first error by time of all ranks; None when no log has one."""
    found = [cause for log in logs for cause in _errors(log)]
    if not found:
        return None
    causes = [it for it in found if not _CONSEQUENCE.search(it.told)] or found
    if any("T" not in it.at for it in causes):
        # Logs that tell no day are compared by the time alone.
        return min(causes, key=lambda it: it.at.rpartition("T")[2] or "~")
    return min(causes, key=lambda it: it.at)


def _errors(log: RankLog) -> Iterator[Cause]:
    """Each error of one log, in its order."""
    # Docker's times are of these lines; of the states of a progress bar the last one is looked at.
    lines = [plain(line.rstrip("\r").rpartition("\r")[2]) for line in log.text.removesuffix("\n").split("\n")]
    times = _times(log, lines)
    index = 0
    while index < len(lines):
        end = _error(lines, index)
        if end is None:
            index += 1
            continue
        block = [line for line in lines[index : end + 1] if line]
        if end == index:
            # Told in one line: what was written behind it may explain it.
            block = [line for line in lines[index : index + MOST_LINES] if line]
        elif len(block) > MOST_LINES:
            block = [block[0], *block[1 - MOST_LINES :]]
        yield Cause(log.node, log.rank, times[index], tuple(block), lines[end].strip())
        index = end + 1


def _error(lines: Sequence[str], index: int) -> int | None:
    """Where the error ends that begins in this line; None when none does."""
    line = lines[index]
    if _TRACEBACK.search(line):
        for end in range(index + 1, min(len(lines), index + _LONGEST)):
            if _RAISED.search(lines[end]):
                return end
        return index
    level = _LEVEL.search(line)
    if level and level[1] not in ("ERROR", "CRITICAL"):
        # Advice about what would be an error.
        return None
    if _RAISED.search(line) or _USAGE.search(line):
        return index
    return index if level and (_NAMED.search(line) or _CONSEQUENCE.search(line)) else None


def _times(log: RankLog, lines: Sequence[str]) -> list[str]:
    """When each line was written. One without a time was written before the next that has one; the last ones when the
    log ended."""
    if len(log.times) == len(lines):
        return list(log.times)
    found = [_time(line) for line in lines]
    later = log.ended or next((time for time in reversed(found) if time), "")
    for index in range(len(found) - 1, -1, -1):
        later = found[index] = found[index] or later
    return found


def _time(line: str) -> str:
    if match := _VLLM.search(line):
        return f"{match[1]}T{match[2]}"
    if match := _TORCH.search(line):
        return f"{match[1]}-{match[2]}T{match[3]}"
    if match := _ISO.search(line):
        return f"{match[1]}T{match[2]}"
    match = _TIME.search(line)
    return match[1] if match else ""
