"""What gates look at: one group's API, and the facts about its ranks and nodes at the time of asking."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from launch.plan.logs import RankLog
from launch.proof.client import Client


@dataclass(frozen=True)
class RankFact:
    """One rank as it is: whether it runs, and in what it is not as planned."""

    name: str
    rank: int
    alive: bool
    drift: tuple[str, ...]


@dataclass(frozen=True)
class NodeMemory:
    """Bytes of a node's memory, and free and total bytes of each GPU, None for one that does not tell."""

    node: str
    available: int
    total: int
    gpus: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class GateContext:
    """The group's API, the served model's name, the ranks' logs, and the patch set that was launched (sha256 hex; None
    when it is not known). `serve` has the flags of the head's command. The functions look when they are called.

    Errors of the functions: HallmarkError.
    """

    client: Client
    model: str
    logs: Callable[[], Sequence[RankLog]]
    patchset: str | None
    serve: Mapping[str, str | bool] = field(default_factory=dict)
    ranks: Callable[[], Sequence[RankFact]] = tuple
    memory: Callable[[], Sequence[NodeMemory]] = tuple
