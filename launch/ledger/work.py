"""What every command on a running cluster works with, and the questions it asks of a group."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launch.engines.base import Engine, RankState
from launch.engines.choose import choose
from launch.engines.secrets import API_KEY, resolve
from launch.group.clock import Clock
from launch.group.journal import Event, Journal
from launch.group.logs import read
from launch.group.transition import WARM_SECONDS, Generation, Ways
from launch.group.why import why
from launch.ledger.history import History, history
from launch.ledger.store import Store
from launch.nodes import reach
from launch.nodes.ports import listener
from launch.nodes.staging import Bars, silent
from launch.plan.group import GroupPlan
from recipe.config.known_errors import load_known_errors
from recipe.config.load import Loaded, load_cluster
from recipe.config.models import Cluster
from recipe.errors import Problem, Refused

if TYPE_CHECKING:
    from launch.proof.heartbeat import Heartbeat


@dataclass
class Work:
    """A cluster with its records and its engine; `bars` show how far images are on their way to the nodes."""

    home: Path
    cluster: Loaded[Cluster]
    say: Callable[[str], None]
    bars: Bars = silent
    store: Store = field(init=False)
    engine: Engine = field(init=False)
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.cluster, self.say)
        self.engine = choose(self.cluster, reach, self.say)
        self.clock = Clock(self.say)

    def look(self) -> tuple[Journal, History]:
        journal = self.store.journal()
        return journal, history(journal.entries)

    def generation(self, revision: int) -> Generation:
        """A recorded revision. Errors: Mismatch when its plan is missing or not what was recorded."""
        _, past = self.look()
        plan = self.store.load_plan(revision, past.revisions[revision].plan)
        return Generation(revision, plan, self.store.mark(revision), self.store.logs(revision))

    def ranks(self, generation: Generation) -> list[RankState]:
        return self.engine.ranks(generation.plan, generation.mark)

    def serves(self, generation: Generation) -> bool:
        alive = all(rank.alive for rank in self.ranks(generation))
        return alive and self.missing(generation) is None

    def missing(self, generation: Generation, seconds: float = WARM_SECONDS) -> str | None:
        """None when real completions come back from this very group within `seconds`, else what was missing."""
        return self._stranger(generation) or self._unanswered(generation, seconds)

    def ways(self, journal: Journal, revision: int, operation: int) -> Ways:
        """How the operation of this number, which is that of its INTENT, reaches the world."""

        def record(event: Event, **data: Any) -> None:
            # One that was stopped before its INTENT was written never began, and has nothing to end.
            if len(journal.entries) >= operation:
                journal.append(event, revision, operation, **data)

        return Ways(
            self.engine,
            record,
            lambda generation: lambda seconds: self.missing(generation, seconds),
            self.why,
            self.clock,
        )

    def heartbeat(self, generation: Generation) -> "Heartbeat":
        """Whether this very group still makes tokens, asked for one of them."""
        from launch.proof.heartbeat import Heartbeat, beat

        if stranger := self._stranger(generation):
            return Heartbeat("silent", stranger)
        plan = generation.plan
        url = self.engine.api_url(plan, generation.mark)
        return beat(url, plan.model_name, api_key=api_key(plan))

    def why(self, generation: Generation) -> str:
        """What the logs that were collected last tell about a group that does not start."""
        return why(read(generation.plan, generation.logs), load_known_errors(self.home), generation.logs)

    def _stranger(self, generation: Generation) -> str | None:
        """Who answers on the group's port on this machine without belonging to it; its answers prove nothing."""
        if self.cluster.value.engine != "process":
            return None
        holder = listener(self.cluster.value.ports.api)
        ours = {pid for rank in self.ranks(generation) for pid in rank.processes}
        if holder is None or holder.pid in ours:
            return None
        return f"port {holder.port} is held by process {holder.pid} ({holder.command}), which is not of this group"

    def _unanswered(self, generation: Generation, seconds: float) -> str | None:
        from launch.proof.ready import probe

        plan = generation.plan
        url = self.engine.api_url(plan, generation.mark)
        answer = probe(url, plan.model_name, deadline=seconds, api_key=api_key(plan))
        return None if answer.ok else answer.reason


def work(home: Path, name: str, say: Callable[[str], None], bars: Bars = silent) -> Work:
    """Open a cluster by name or path. Errors: ConfigError; Refused for an engine that cannot be run yet."""
    return Work(home, load_cluster(home, name), say, bars)


def refusal(head: str, reasons: Iterable[str]) -> Refused:
    """A refusal for several reasons, each on a line of its own."""
    error = Refused(head)
    error.problems = (*error.problems, *(Problem(reason) for reason in reasons))
    return error


def api_key(plan: GroupPlan) -> str | None:
    """The key that the head was started with, when it was given one."""
    head = plan.ranks[0]
    reference = head.secrets.get(API_KEY)
    return resolve(reference, API_KEY) if reference else head.env.get(API_KEY)
