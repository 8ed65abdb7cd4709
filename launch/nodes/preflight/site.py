"""What checks look at, and what they say."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from launch.nodes.node import NodeFacts
from launch.plan.group import GroupPlan, RankPlan
from launch.plan.ranks import MASTER_PORT, flag, words
from recipe.config.load import Loaded
from recipe.config.models import Cluster, Hardware, Node
from recipe.errors import Problem


class Verdict(Enum):
    """WARN: it may work, or work badly; FAIL: it will not."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Found:
    """What one check says of one node (None: of all). `hint` is the remedy, `where` the place in a file."""

    check: str
    node: str | None
    verdict: Verdict
    message: str
    hint: str | None = None
    where: str | None = None

    @property
    def problem(self) -> Problem:
        """As one line of an error."""
        return Problem(f"node {self.node}: {self.message}" if self.node else self.message, self.where, self.hint)

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "node": self.node,
            "verdict": self.verdict.value,
            "message": self.message,
            "hint": self.hint,
            "where": self.where,
        }


@dataclass(frozen=True)
class Old:
    """The group that runs now and will be stopped first: its mark, its ports, whether it is alive."""

    mark: str
    ports: frozenset[int]
    alive: bool


@dataclass(frozen=True)
class Machine:
    """One machine with the ranks that it runs; of several nodes that are the same machine `name` is the first's."""

    name: str
    facts: NodeFacts
    ranks: tuple[RankPlan, ...]

    @property
    def head(self) -> bool:
        """Whether rank 0 runs there."""
        return any(rank.rank == 0 for rank in self.ranks)


@dataclass(frozen=True)
class Site:
    """A plan with what is known of its nodes. `owner`: with what the marks of this cluster's groups begin; `lacking`:
    nodes that need the image, with the bytes of it that are missing there (None: nobody knows); `image_env`: the
    image's variables, when they are known here."""

    plan: GroupPlan
    hardware: Loaded[Hardware]
    cluster: Loaded[Cluster]
    machines: tuple[Machine, ...]
    owner: str = ""
    old: Old | None = None
    lacking: Mapping[str, int | None] = field(default_factory=dict)
    image_env: dict[str, str] | None = None

    @property
    def serves(self) -> bool:
        """Whether a group of ours runs now, whose memory and ports will be free."""
        return self.old is not None and self.old.alive

    def nodes(self) -> Iterator[tuple[RankPlan, Machine, Node | None]]:
        """Every rank with its machine and its entry of the cluster file, when that still has it."""
        entries = {node.name: node for node in self.cluster.value.nodes}
        for machine in self.machines:
            for rank in machine.ranks:
                yield rank, machine, entries.get(rank.name)

    def where(self, name: str, key: str) -> str | None:
        """The place in the cluster file of a node's key."""
        for index, node in enumerate(self.cluster.value.nodes):
            if node.name == name:
                return self.cluster.document.where(("nodes", index, key))
        return None


def plan_ports(plan: GroupPlan) -> dict[str, int]:
    """The ports that the head opens, by their keys in the cluster file."""
    argv = words(plan.ranks[0].argv)
    api = urlsplit(plan.api_url).port
    ports = {} if api is None else {"api": api}
    if len(plan.ranks) > 1:
        # A group that was started by hand may have left it at vLLM's default.
        ports["master"] = int(flag(argv, "--master-port") or MASTER_PORT)
    return ports


def passed(check: str, node: str | None, message: str) -> Found:
    """What holds."""
    return Found(check, node, Verdict.PASS, message)


def gib(size: float) -> str:
    """Bytes in GiB, for people."""
    return f"{size / 2**30:.1f} GiB"
