"""What runs now against what the history says should run."""

from dataclasses import asdict, dataclass
from typing import Any

from launch.group.transition import Generation
from launch.ledger.subject import recorded
from launch.ledger.work import Work
from launch.nodes.lock import holder


@dataclass(frozen=True)
class RankNow:
    """One rank; `drift` lists everything in which it is not as planned."""

    name: str
    rank: int
    alive: bool
    digest: str | None
    drift: list[str]


@dataclass(frozen=True)
class Status:
    """`state`: running, degraded, stopped, changing (a command is at work) or unfinished (one was killed); `ready`:
    all ranks are alive and completions come back."""

    cluster: str
    state: str
    revision: int | None
    image: str | None
    ranks: list[RankNow]
    ready: bool
    missing: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def status(work: Work) -> Status:
    """Look at every rank and ask the group for completions; changes nothing."""
    _, past = work.look()
    number = past.unfinished or past.running
    if number is None:
        return Status(work.cluster.name, "stopped", None, None, [], False, None)
    generation = work.generation(number)
    ranks = ranks_now(work, generation)
    dead = ", ".join(f"rank {rank.rank} ({rank.name})" for rank in ranks if not rank.alive)
    lacking = f"{dead} does not run" if dead else work.missing(generation)
    if past.unfinished is not None:
        state = "unfinished" if holder(work.store.lock) is None else "changing"
    elif all(rank.alive and not rank.drift for rank in ranks) and lacking is None:
        state = "running"
    else:
        state = "degraded" if any(rank.alive for rank in ranks) else "stopped"
    image = generation.plan.subject.reference
    return Status(work.cluster.name, state, number, image, ranks, lacking is None, lacking)


def ranks_now(work: Work, generation: Generation) -> list[RankNow]:
    """Every rank of a generation with what is not as planned."""
    _, past = work.look()
    revision = past.revisions[generation.revision]
    digest = revision.subject["digest"]
    changed = recorded(work, revision, generation.plan).differences()
    drifts = work.engine.drift(generation.plan, generation.mark)
    return [
        RankNow(rank.name, rank.rank, rank.alive, digest if rank.alive else None, [*drifts[rank.rank], *changed])
        for rank in work.ranks(generation)
    ]
