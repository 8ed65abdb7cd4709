"""What a node's kernel knows of a rank: the command that asks it, and connections that nobody answers.

A rank that spins while it waits for a peer looks busy to everybody. The kernel knows better: it sends again what the
other machine does not confirm, be it the first packet of a connection or data of one that stands.
"""

import ipaddress
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ASK_SECONDS = 2.0
# No number of packets, so that connections are read.
_UNKNOWN = "-1"


@dataclass(frozen=True, order=True)
class Unanswered:
    """The other end of a connection. `own`: it is known to be the rank's; else it may be any program's of its node."""

    address: str
    port: int
    own: bool = True


def look_words(pid: int, ask: str | None = None) -> tuple[str, ...]:
    """The command that looks at a process and its descendants: look.awk. `ask`: also for what is unanswered, where
    other than so many packets were sent again."""
    return ("awk", "-v", f"root={pid}", *(("-v", f"ask={ask}") if ask is not None else ()), _script())


def read(lines: Iterable[str]) -> tuple[Unanswered, ...]:
    """The connections that look.awk wrote, each once."""
    found = set()
    for line in lines:
        end, _, whose = line.partition(" ")
        address, _, port = end.partition(":")
        found.add(Unanswered(_address(address), int(port, 16), whose == "own"))
    return tuple(sorted(found))


class Turns:
    """Says of which process it is time to ask again, and from what its connections need not be read: nothing was sent
    again since, and nothing was unanswered then."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[int, float] = {}
        self._resent: dict[int, str] = {}

    def now(self, pid: int) -> str | None:
        """For `look_words`; None while it is not time. That it is asked then is taken for granted."""
        if self._clock() - self._last.get(pid, float("-inf")) < ASK_SECONDS:
            return None
        self._last[pid] = self._clock()
        return self._resent.get(pid, _UNKNOWN)

    def told(self, pid: int, lines: Sequence[str]) -> tuple[Unanswered, ...]:
        """What look.awk wrote behind its first line when it was asked."""
        resent = lines[0].partition(" ")[2] if lines else _UNKNOWN
        found = read(lines[1:])
        self._resent[pid] = _UNKNOWN if found or not resent.isdigit() else resent
        return found


@cache
def _script() -> str:
    return Path(__file__).with_name("look.awk").read_text(encoding="utf-8")


def _address(text: str) -> str:
    """As /proc/net/tcp has it: words of four bytes, each in the machine's order, which is little-endian on all of ours.
    An IPv4 address in IPv6 form is written as the IPv4 address it is."""
    raw = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    found = ipaddress.ip_address(raw)
    return str((found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None) or found)
