"""What an engine does for a group of ranks; the planner has decided everything it is told."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from launch.engines.kernel import Unanswered
from launch.plan.group import GroupPlan
from launch.plan.place import Place


@dataclass(frozen=True)
class RankState:
    """One rank as it is now. `alive` speaks of the rank's own main process; `processes` are all that belong to it."""

    name: str
    rank: int
    alive: bool
    processes: tuple[int, ...]


@dataclass(frozen=True)
class Look:
    """One rank as a cheap look sees it. Of a rank that is not `reached` nothing is known but `why`; of one that is not
    `alive` that says how it ended, where anybody knows.

    `held`: the process that is stopped by a signal, or how its container is held; `spent`: seconds of processor time of
    all its processes so far, None where they cannot be seen; `disk`: one of them waits for a disk; `unanswered`: ends
    of connections that do not confirm what was sent, None where this look did not ask.
    """

    name: str
    rank: int
    alive: bool
    reached: bool = True
    held: str | None = None
    spent: float | None = None
    disk: bool = False
    unanswered: tuple[Unanswered, ...] | None = None
    why: str = ""


class Engine(Protocol):
    """Starts, looks at and stops the ranks of one group; `group` is the ownership mark that they carry."""

    @property
    def look_seconds(self) -> float:
        """How often ranks may be looked at while they start, without taking the time that they need themselves."""

    def start(self, plan: GroupPlan, group: str, logs: Path) -> None:
        """Start every rank, workers first, and return at once. Errors: Refused when a rank cannot be started."""

    def ranks(self, plan: GroupPlan, group: str) -> list[RankState]:
        """Look at every rank of the plan, in the plan's order."""

    def look(self, plan: GroupPlan, group: str) -> list[Look]:
        """How every rank is right now, in the plan's order; a node that does not answer soon is not reached."""

    def drift(self, plan: GroupPlan, group: str) -> dict[int, list[str]]:
        """By rank, in what the running one differs from its plan; empty for a rank that does not run."""

    def groups(self, owner: str, plans: Sequence[GroupPlan]) -> set[str]:
        """The marks that begin with `owner` and of which something runs, on the cluster's nodes or those of `plans`."""

    def stop(self, plan: GroupPlan, group: str, patience: float) -> None:
        """Ask all ranks to end, then end them; returns when nothing with this mark runs any more, and nothing of it is
        left in shared memory.

        Errors: Unreachable when a node is not reached, after all others have been stopped; NeedsOperator.
        """

    def collect(self, plan: GroupPlan, group: str, logs: Path) -> set[str]:
        """Bring what each rank wrote since its start into `logs`, as NAME.log; where lines have no times of their own,
        NAME.times has one for each. Of a node that is not reached what was brought before stays.

        Gives the names of the ranks whose file now is of this start; a file of another may be an older copy."""

    def follow(self, plan: GroupPlan, group: str, logs: Path, lines: int) -> dict[str, tuple[Place, tuple[str, ...]]]:
        """By node: where which command writes the last `lines` of its rank's log, and then what is added to it, until
        it is ended or the rank has ended. Without those whose rank was never there. Errors: Unreachable."""

    def tidy(self, owner: str, keep: set[str], plans: Sequence[GroupPlan]) -> None:
        """Remove what groups of this owner left behind that do not run, but those with the marks of `keep`, on the
        cluster's nodes and those of `plans`."""

    def api_url(self, plan: GroupPlan, group: str) -> str:
        """Where the group's head answers; as planned unless a scheduler has chosen its machine."""
