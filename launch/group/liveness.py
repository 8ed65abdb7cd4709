"""Decides from repeated looks at the ranks whether one of them is lost. Pure: time is given.

While ranks start nothing may be asked of them, so a rank that hangs is known by what the kernel says: a process that a
signal holds, or a whole group of which nothing moves. One that waits for others beside a busy one is no sign of
anything. A rank that spins, as NCCL does while it waits, looks busy; that is found when the time to get ready is over.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from launch.engines.base import Look
from launch.plan.group import GroupPlan
from launch.plan.ranks import model

# A connection that breaks is back within a second or two; a busy node may miss a look.
CUT_SECONDS = 8.0
# A debugger or a person may hold a process for a moment.
HELD_SECONDS = 3.0
# In so many seconds a rank that does anything takes more than this share of a processor. A group that polls a little
# more than that while it hangs is found when its time is over, which is the safe side to be wrong on.
IDLE_SECONDS = 8.0
IDLE_SHARE = 0.01
_STALL_SECONDS = 2.0


@dataclass
class _Seen:
    reached: float
    held: float | None = None
    # When it last was seen to have moved, and what it had spent then.
    moved: float = 0.0
    spent: float | None = None


class Liveness:
    """What is known of the ranks of one start."""

    def __init__(self, plan: GroupPlan, now: float) -> None:
        # One that fetches its model by a name may wait for that.
        self._idle = all((model(rank.argv) or "/").startswith(("/", "~")) for rank in plan.ranks)
        self._seen = [_Seen(now, moved=now) for _ in plan.ranks]
        self._last = now
        self._looks: Sequence[Look] = [Look(it.name, it.rank, alive=True, reached=False) for it in plan.ranks]

    def feed(self, looks: Sequence[Look], now: float) -> None:
        """Take in what was seen of all ranks, in the order of the plan."""
        self._looks = looks
        for seen, look in zip(self._seen, looks, strict=True):
            if not look.reached:
                continue
            seen.reached = now
            seen.held = (seen.held if seen.held is not None else now) if look.held else None
            used = None if look.spent is None or seen.spent is None else look.spent - seen.spent
            if look.disk or used is None or used < 0 or used > IDLE_SHARE * IDLE_SECONDS:
                seen.moved, seen.spent = now, look.spent

    def lost(self, now: float) -> str | None:
        """What is wrong with which rank; None while nothing is known to be. Asked again and again while time passes."""
        if now - self._last > _STALL_SECONDS:
            # This machine had no time to look, which says nothing about the ranks.
            for seen in self._seen:
                seen.reached += now - self._last
                seen.moved += now - self._last
        self._last = now
        for seen, look in zip(self._seen, self._looks, strict=True):
            who = f"rank {look.rank} ({look.name})"
            if look.reached and not look.alive:
                return f"{who} ended while it started"
            if now - seen.reached > CUT_SECONDS:
                return f"{who} was cut off while it started: {look.why or 'its node does not answer'}"
            if look.held and seen.held is not None and now - seen.held > HELD_SECONDS:
                return f"{who} hangs: {look.held}"
        if self._idle and all(now - seen.moved > IDLE_SECONDS for seen in self._seen):
            return f"the group hangs: for {IDLE_SECONDS:g} s no rank used a processor or waited for a disk"
        return None
