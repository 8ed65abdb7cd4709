"""What runs now against what the history says should run."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from launch.engines.base import Look
from launch.group.transition import Generation
from launch.ledger.subject import recorded
from launch.ledger.work import Work
from launch.nodes.lock import holder
from recipe.errors import Unreachable


@dataclass(frozen=True)
class RankNow:
    """One rank; `drift` lists everything in which it is not as planned. Of one whose node is not `reached` nothing is
    known but `why`, which of one that is not alive says how it ended; `held` says how a rank is kept from running."""

    name: str
    rank: int
    alive: bool
    digest: str | None
    drift: list[str]
    reached: bool = True
    held: str | None = None
    why: str = ""

    @property
    def wrong(self) -> str | None:
        """Why this rank takes no part; None when it seems to."""
        who = f"rank {self.rank} ({self.name})"
        why = f": {self.why}" if self.why else ""
        if not self.reached:
            return f"{who} is not reached{why}"
        if not self.alive:
            return f"{who} does not run{why}"
        return f"{who} hangs: {self.held}" if self.held else None


@dataclass(frozen=True)
class Status:
    """`state`: running, degraded, stopped, changing (a command is at work) or unfinished (one was killed); `ready`:
    all ranks are alive and tokens come back, or others' requests keep the group `busy`."""

    cluster: str
    state: str
    revision: int | None
    image: str | None
    ranks: list[RankNow]
    ready: bool
    missing: str | None
    busy: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def status(work: Work) -> Status:
    """Look at every rank and ask the group for a token; changes nothing.

    Errors: Unreachable when no rank can be looked at.
    """
    _, past = work.look()
    number = past.unfinished or past.running
    if number is None:
        return Status(work.cluster.name, "stopped", None, None, [], False, None)
    generation = work.generation(number)
    ranks = ranks_now(work, generation)
    if not any(rank.reached for rank in ranks):
        raise Unreachable(ranks[0].why)
    lacking = "; ".join(it for rank in ranks if (it := rank.wrong)) or None
    beat = work.heartbeat(generation) if lacking is None else None
    if beat is not None and not beat.alive:
        lacking = "; ".join([beat.reason, *_unanswered(work, generation)])
    if past.unfinished is not None:
        state = "unfinished" if holder(work.store.lock) is None else "changing"
    elif all(rank.alive and not rank.drift for rank in ranks) and lacking is None:
        state = "running"
    else:
        state = "degraded" if any(rank.alive or not rank.reached for rank in ranks) else "stopped"
    image = generation.plan.subject.reference
    busy = beat is not None and beat.state == "busy"
    return Status(work.cluster.name, state, number, image, ranks, lacking is None, lacking, busy)


def ranks_now(work: Work, generation: Generation) -> list[RankNow]:
    """Every rank of a generation with what is not as planned."""
    _, past = work.look()
    revision = past.revisions[generation.revision]
    digest = revision.subject["digest"]
    plan = generation.plan
    looks = work.engine.look(plan, generation.mark)
    there = tuple(rank for rank, look in zip(plan.ranks, looks, strict=True) if look.reached)
    try:
        changed = recorded(work, revision, replace(plan, ranks=there)).differences()
        drifts = work.engine.drift(replace(plan, ranks=there), generation.mark)
    except Unreachable as error:
        # The engine of a node that is reached; its ranks were seen without it.
        changed, drifts = [str(error)], {}
    return [_now(look, digest, [*drifts.get(look.rank, []), *changed] if look.reached else []) for look in looks]


def _unanswered(work: Work, generation: Generation) -> list[str]:
    """Which ranks send to whom without an answer, once they were asked for a token."""
    looks = work.engine.look(generation.plan, generation.mark)
    ends = [(look, end) for look in looks for end in look.unanswered or () if end.own]
    return [f"rank {look.rank} ({look.name}) gets no answer from {it.address} port {it.port}" for look, it in ends]


def _now(look: Look, digest: str | None, drift: list[str]) -> RankNow:
    return RankNow(
        look.name, look.rank, look.alive, digest if look.alive else None, drift, look.reached, look.held, look.why
    )
