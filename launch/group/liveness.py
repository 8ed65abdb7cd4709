"""Decides from repeated looks at the ranks whether one of them is lost. Pure: time is given.

While ranks start nothing may be asked of them, so a rank that hangs is known by what the kernel says: a process that a
signal holds, a whole group of which nothing moves, or packets to another rank that its machine does not confirm. One
that waits for others beside a busy one is no sign of anything. Logs tell two more: that a start has failed for good,
and that a rank which does nothing has not even come to the others.

A rank that spins, as NCCL does while it waits, looks busy. Where the network is the reason, the packets tell it; else
it is found when the time to get ready is over.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from launch.engines.base import Look
from launch.engines.kernel import Unanswered
from launch.plan.allocated import ADDRESS
from launch.plan.group import GroupPlan
from launch.plan.ranks import MASTER_PORT, flag, model, words
from launch.plan.stages import JOINED, Stages, reached, until

# A connection that breaks is back within a second or two; a busy node may miss a look.
CUT_SECONDS = 8.0
# A debugger or a person may hold a process for a moment.
HELD_SECONDS = 3.0
# In so many seconds a rank that does anything takes more than this share of a processor. A group that polls a little
# more than that while it hangs is found when its time is over, which is the safe side to be wrong on.
IDLE_SECONDS = 8.0
IDLE_SHARE = 0.01
# Besides the first second, after which the kernel sends a packet again. So long a cable may be out of its socket.
UNANSWERED_SECONDS = 5.0
# From the line that says so. Until then a rank ends by itself.
FAILED_SECONDS = 5.0
# One rank alone may wait longer for what is no rank: a resolver gives up after 30 s.
ALONE_SECONDS = 40.0
# An engine that hangs gives no log; a rank may come far meanwhile.
UNTOLD_SECONDS = 20.0
# Ranks of one kind of machine are rarely so far apart before they have met.
LAG_SECONDS = 30.0
_STALL_SECONDS = 2.0
# A node that gave no look for so long may be cut off.
_MISSED_SECONDS = 2.5
_WIDTH = 300


@dataclass
class _Seen:
    reached: float
    held: float | None = None
    # When it last was seen to have moved, and what it had spent then.
    moved: float = 0.0
    spent: float | None = None
    # By other end since when it does not confirm anything, and when that was seen last.
    unanswered: dict[Unanswered, float] = field(default_factory=dict)
    asked: float = 0.0
    # Its stage, since when it is in that, and when its log was had last: without it nobody knows.
    stage: str | None = None
    since: float = 0.0
    told: float | None = None
    failed: tuple[float, str] | None = None


class Liveness:
    """What is known of the ranks of one start."""

    def __init__(self, plan: GroupPlan, now: float) -> None:
        # One that fetches its model by a name may wait for that.
        self._idle = all((model(rank.argv) or "/").startswith(("/", "~")) for rank in plan.ranks)
        self._seen = [_Seen(now, moved=now, since=now) for _ in plan.ranks]
        # By address on the fabric whose it is.
        self._peers = {rank.env[ADDRESS]: rank.name for rank in plan.ranks if ADDRESS in rank.env}
        argv = words(plan.ranks[0].argv)
        self._master = plan.ranks[0].env.get(ADDRESS), int(flag(argv, "--master-port") or MASTER_PORT)
        self._nccl: dict[str, tuple[str, str]] = {}
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
            if look.unanswered is not None:
                seen.unanswered = {it: seen.unanswered.get(it, now) for it in look.unanswered}
                seen.asked = now

    def read(self, found: Stages, now: float) -> None:
        """Take in what the ranks' logs say."""
        self._nccl = found.nccl
        for seen, look in self._pairs():
            if look.name not in found.nodes:
                continue
            seen.told = now
            stage = found.nodes[look.name]
            if stage != seen.stage:
                seen.stage, seen.since = stage, now
            if look.name in found.failed and seen.failed is None:
                seen.failed = now, found.failed[look.name]

    def lost(self, now: float) -> str | None:
        """What is wrong with which rank; None while nothing is known to be. Asked again and again while time passes."""
        if now - self._last > _STALL_SECONDS:
            # This machine had no time to look, which says nothing about the ranks.
            for seen in self._seen:
                seen.reached += now - self._last
                seen.moved += now - self._last
                seen.unanswered = {}
        self._last = now
        for seen, look in self._pairs():
            who = f"rank {look.rank} ({look.name})"
            if look.reached and not look.alive:
                return f"{who} ended while it started{f': {look.why}' if look.why else ''}"
            if now - seen.reached > CUT_SECONDS:
                return f"{who} was cut off while it started: {look.why or 'its node does not answer'}"
            if look.held and seen.held is not None and now - seen.held > HELD_SECONDS:
                return f"{who} hangs: {look.held}"
            if seen.failed is not None and now - seen.failed[0] > FAILED_SECONDS:
                return f"{who} has failed to start, and its processes stay: {seen.failed[1][:_WIDTH]}"
            for end, since in seen.unanswered.items():
                long = seen.asked - since >= UNANSWERED_SECONDS
                if long and self._of_the_group(end, look) and self._reached(end, now):
                    return f"{who} gets no answer from {self._end(end)}"
        if self._idle and (alone := self._alone(now)) is not None:
            look = self._looks[alone]
            return (
                f"rank {look.rank} ({look.name}) hangs: it has not come to the others, and for {ALONE_SECONDS:g} s it"
                " used no processor and waited for no disk"
            )
        # What waits for an answer from elsewhere, as from a hub, may go on without one; of a rank that was not reached
        # nobody knows.
        unknown = any(_own(seen) or not look.reached for seen, look in self._pairs())
        if self._idle and not unknown and all(now - seen.moved > IDLE_SECONDS for seen in self._seen):
            return f"the group hangs: for {IDLE_SECONDS:g} s no rank used a processor or waited for a disk"
        return None

    def stays(self, now: float) -> list[str]:
        """For people: which ranks are furthest behind, for how long, what they do there, and where to look."""
        known = {look.name: seen.stage for seen, look in self._pairs() if _told(seen, now)}
        behind = Stages(known, {}).behind
        lines = []
        for seen, look in self._pairs():
            if look.name not in known:
                lines.append(f"how far rank {look.rank} ({look.name}) is nobody knows: its node does not give its log")
            if look.name not in behind:
                continue
            stays = f"stays at '{seen.stage}'" if seen.stage else "has written nothing"
            line = f"rank {look.rank} ({look.name}) {stays} for {now - seen.since:.0f} s"
            meant = until(seen.stage)
            lines.append(f"{line}: {meant[0]} — {meant[1]}" if meant else line)
        return lines

    def lagging(self, now: float) -> list[str]:
        """As `stays`, of ranks that have been behind others for long."""
        behind = [seen for seen in self._seen if reached(seen.stage) == min(reached(it.stage) for it in self._seen)]
        long = all(now - seen.since > LAG_SECONDS and _told(seen, now) for seen in behind)
        return self.stays(now) if len(behind) < len(self._seen) and long else []

    def remarks(self) -> list[str]:
        """For people: what stands out, whether it is the reason or not."""
        lines = []
        for seen, look in self._pairs():
            who = f"rank {look.rank} ({look.name})"
            for end in seen.unanswered:
                if end.own or self._of_the_group(end, look):
                    lines.append(f"{who} gets no answer from {self._end(end)}")
            interface, address = self._nccl.get(look.name, ("", ""))
            if address and self._peers and self._peers.get(address) != look.name:
                lines.append(
                    f"{who}: NCCL meets the others at {address} of {interface}, which is not its fabric address;"
                    " see `interface` of the cluster file"
                )
        return lines

    def _pairs(self) -> list[tuple[_Seen, Look]]:
        return list(zip(self._seen, self._looks, strict=True))

    def _of_the_group(self, end: Unanswered, look: Look) -> bool:
        """Whether it is another rank of the group that does not answer. What is not known to be the rank's own
        connection counts only to where nobody else would go."""
        other = self._peers.get(end.address, look.name) != look.name
        return other and (end.own or (end.address, end.port) == self._master)

    def _reached(self, end: Unanswered, now: float) -> bool:
        """Whether the other end's node is reached: one that is not is cut off, which says more than what it breaks."""
        name = self._peers.get(end.address)
        return any(look.name == name and now - seen.reached < _MISSED_SECONDS for seen, look in self._pairs())

    def _end(self, end: Unanswered) -> str:
        name = self._peers.get(end.address)
        whose = f", which is {name} on the fabric" if name else ", which is no fabric address of the cluster"
        return f"{end.address} port {end.port}{whose}"

    def _alone(self, now: float) -> int | None:
        """The rank that does nothing and has not come to the others, who wait for it."""
        joined = [reached(seen.stage) >= JOINED for seen in self._seen]
        if joined.count(False) != 1 or len(joined) < 2:
            return None
        at = joined.index(False)
        seen = self._seen[at]
        alone = now - seen.moved > ALONE_SECONDS and _told(seen, now) and not _own(seen)
        return at if alone else None


def _own(seen: _Seen) -> bool:
    return any(end.own for end in seen.unanswered)


def _told(seen: _Seen, now: float) -> bool:
    return seen.told is not None and now - seen.told < UNTOLD_SECONDS
