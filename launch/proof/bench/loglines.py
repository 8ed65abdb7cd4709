"""Whether the server's own log line about speculation agrees with its counters."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from launch.proof.metrics import SpecCounts

# vllm/v1/spec_decode/metrics.py, every ten seconds in which something was drafted.
_LINE = re.compile(r"SpecDecoding metrics: .*Accepted: (\d+) tokens, Drafted: (\d+) tokens")


@dataclass(frozen=True)
class Logged:
    """Accepted and drafted tokens, summed over the log's lines."""

    accepted: int
    drafted: int

    def since(self, before: "Logged") -> "Logged":
        """What was logged after `before`."""
        return Logged(self.accepted - before.accepted, self.drafted - before.drafted)

    def agrees(self, counts: SpecCounts) -> bool:
        """Whether the log tells of the same tokens as the counters."""
        return (self.accepted, self.drafted) == (counts.accepted, counts.draft_tokens)


def logged(lines: Iterable[str]) -> Logged:
    """Sum what the lines of one rank's log say."""
    found = [match for line in lines if (match := _LINE.search(line))]
    return Logged(sum(int(match[1]) for match in found), sum(int(match[2]) for match in found))
