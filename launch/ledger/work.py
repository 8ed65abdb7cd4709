"""What every command on a running cluster works with, and the questions it asks of a group."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from launch.engines.base import Engine, RankState
from launch.engines.choose import choose
from launch.engines.secrets import resolve
from launch.group.clock import Clock
from launch.group.journal import Journal
from launch.group.transition import Generation, Ways
from launch.ledger.history import History, history
from launch.ledger.store import Store
from launch.plan.group import GroupPlan
from recipe.config.load import Loaded, load_cluster
from recipe.config.models import Cluster

# A batch of completions of ten tokens; minutes on a cold kernel cache.
_PROBE_SECONDS = 600.0


@dataclass
class Work:
    """A cluster with its records and its engine."""

    home: Path
    cluster: Loaded[Cluster]
    say: Callable[[str], None]
    store: Store = field(init=False)
    engine: Engine = field(init=False)
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.cluster)
        self.engine = choose(self.cluster)
        self.clock = Clock(self.say)

    def look(self) -> tuple[Journal, History]:
        journal = self.store.journal()
        return journal, history(journal.entries)

    def generation(self, revision: int) -> Generation:
        """A recorded revision. Errors: Mismatch when its plan is missing."""
        return Generation(
            revision, self.store.load_plan(revision), self.store.mark(revision), self.store.logs(revision)
        )

    def ranks(self, generation: Generation) -> list[RankState]:
        return self.engine.ranks(generation.plan, generation.mark)

    def serves(self, generation: Generation) -> bool:
        return all(rank.alive for rank in self.ranks(generation)) and missing(generation.plan) is None

    def ways(self, journal: Journal, revision: int, operation: int) -> Ways:
        return Ways(
            self.engine,
            lambda event, **data: journal.append(event, revision, operation, **data),
            lambda generation: lambda: missing(generation.plan),
            self.clock,
        )


def work(home: Path, name: str, say: Callable[[str], None]) -> Work:
    """Open a cluster by name or path. Errors: ConfigError; Refused for an engine that cannot be run yet."""
    return Work(home, load_cluster(home, name), say)


def api_key(plan: GroupPlan) -> str | None:
    """The key that the head was started with, when it was given one."""
    head = plan.ranks[0]
    reference = head.secrets.get("VLLM_API_KEY")
    return resolve(reference) if reference else head.env.get("VLLM_API_KEY")


def missing(plan: GroupPlan) -> str | None:
    """None when real completions come back, else what was missing."""
    from launch.proof.ready import probe

    answer = probe(plan.api_url, plan.model_name, deadline=_PROBE_SECONDS, api_key=api_key(plan))
    return None if answer.ok else answer.reason
