"""The docker engine: ranks as containers of their nodes' engines, found again by the label that has their mark.

Containers without that label are never touched, but those that were adopted by their id. Stopped ones are kept, so that
they keep their image and can be started again.
"""

import json
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from launch.engines.base import Look, RankState
from launch.engines.docker import run_argv
from launch.engines.kernel import Turns, Unanswered, look_words
from launch.engines.process import keep
from launch.engines.secrets import resolve
from launch.plan.container import LABEL
from launch.plan.group import GroupPlan, RankPlan, at_home
from launch.plan.place import Place
from recipe.errors import NeedsOperator, Refused, Unreachable

GROUP = f"{LABEL}.group"
RANK = f"{LABEL}.rank"
# A look that takes longer says as much as none: the node is cut off, or has no time for anything. It is not repeated
# when the connection breaks, since the next one comes soon, and the others' ranks are not seen again before it ends.
LOOK_SECONDS = 6.0
# What is kept beside a container's log.
_KEPT = ("Id", "Name", "Image", "Created", "RestartCount", "State")
# Linux shows processor time in hundredths of a second on every machine.
_TICKS = 100
T = TypeVar("T")
S = TypeVar("S")


class Reach(Protocol):
    """How nodes are reached; launch.nodes.reach says what each one does."""

    def run(
        self,
        place: Place,
        argv: Sequence[str],
        *,
        variables: Mapping[str, str] | None = None,
        seconds: float | None = 60,
        once: bool = False,
    ) -> "subprocess.CompletedProcess[str]": ...

    def docker(
        self,
        place: Place,
        *words: str,
        variables: Mapping[str, str] | None = None,
        seconds: float | None = 0,
        once: bool = False,
    ) -> str: ...

    def answer(
        self, place: Place, *words: str, seconds: float | None = 0, through: Sequence[str] = ()
    ) -> "subprocess.CompletedProcess[str]": ...

    def home(self, place: Place) -> str: ...

    def each(self, ask: Callable[[T], S], of: Iterable[T]) -> list[S]: ...


class DockerEngine:
    """Runs ranks as containers. `places`: the nodes of the cluster, as its file has them now.

    A node that an older plan names and the file no longer does is asked like the others. When it is not reached, that
    is said once and it counts as one where nothing runs: it may be switched off for good.
    """

    # Each look starts ssh and docker on every node.
    look_seconds = 1.0

    def __init__(self, places: Sequence[Place], reach: Reach, say: Callable[[str], None]) -> None:
        self._places = tuple(places)
        self._reach = reach
        self._say = say
        self._unreached: set[Place] = set()
        self._mains: dict[tuple[str, int], _Main] = {}
        self._turns: dict[Place, Turns] = {}

    def start(self, plan: GroupPlan, group: str, logs: Path) -> None:
        for rank in sorted(plan.ranks, key=lambda rank: rank.rank, reverse=True):
            # Of an earlier start: when its engine gives no other one, nobody shall take it for this one's.
            keep(logs / f"{rank.name}.log")
            (logs / f"{rank.name}.times").unlink(missing_ok=True)
            self._start(rank, group)

    def ranks(self, plan: GroupPlan, group: str) -> list[RankState]:
        def look(rank: RankPlan) -> RankState:
            if _adopted(rank):
                found = self._asked(rank.place, lambda: self._inspect(rank, group), None)
                return RankState(rank.name, rank.rank, found is not None and bool(found["State"]["Running"]), ())
            nothing: set[str] = set()
            running = self._asked(rank.place, lambda: self._labels(rank.place, _of(group), RANK), nothing)
            return RankState(rank.name, rank.rank, str(rank.rank) in running, ())

        return self._reach.each(look, plan.ranks)

    def look(self, plan: GroupPlan, group: str) -> list[Look]:
        def look(rank: RankPlan) -> Look:
            try:
                return self._look(rank, group)
            except Unreachable as error:
                return Look(rank.name, rank.rank, alive=False, reached=False, why=str(error))

        return self._reach.each(look, plan.ranks)

    def drift(self, plan: GroupPlan, group: str) -> dict[int, list[str]]:
        def look(rank: RankPlan) -> list[str]:
            found = self._asked(rank.place, lambda: self._inspect(rank, group), None)
            if found is None or not found["State"]["Running"]:
                return []
            return differences(at_home(rank, self._reach.home(rank.place)), found)

        return dict(zip((rank.rank for rank in plan.ranks), self._reach.each(look, plan.ranks), strict=True))

    def groups(self, owner: str, plans: Sequence[GroupPlan]) -> set[str]:
        def look(place: Place) -> set[str]:
            return self._asked(place, lambda: self._labels(place, f"label={GROUP}", GROUP), set())

        found = self._reach.each(look, self._all(plans))
        return {mark for marks in found for mark in marks if mark.startswith(f"{owner}/")}

    def stop(self, plan: GroupPlan, group: str, patience: float) -> None:
        def running_on(place: Place) -> list[str]:
            ours = [name for rank in plan.ranks if rank.place == place for name in _adopted(rank)]
            return [*self._list(place, _of(group)), *(it for name in ours for it in self._list(place, f"id={name}"))]

        def halt(place: Place) -> None:
            running = running_on(place)
            if running:
                # Docker asks all of them at the same time.
                self._reach.docker(place, "stop", "--time", f"{patience:.0f}", *running, seconds=patience + 60)
            if left := running_on(place):
                raise NeedsOperator(f"node {place.name}: containers {', '.join(left)} cannot be ended")

        self._reach.each(lambda place: self._asked(place, lambda: halt(place), None), self._all([plan]))

    def container(self, rank: RankPlan, group: str) -> str | None:
        """The id of the rank's container, running or not. Errors: Unreachable."""
        found = self._inspect(rank, group)
        return None if found is None else str(found["Id"])

    def collect(self, plan: GroupPlan, group: str, logs: Path) -> set[str]:
        def fetch(rank: RankPlan) -> str | None:
            found = self._asked(rank.place, lambda: self._inspect(rank, group), None)
            if found is None:
                return None
            # A container that was started again still has what it wrote before.
            since = found["State"]["StartedAt"]
            words = ("logs", "--timestamps", "--since", since, found["Id"])
            done = self._reach.answer(rank.place, *words, seconds=60, through=("sh", "-c", 'exec "$@" 2>&1', "sh"))
            logs.mkdir(parents=True, exist_ok=True)
            # Not all that docker tells of it: the variables have secrets.
            kept = {key: found[key] for key in _KEPT if key in found}
            (logs / f"{rank.name}.container.json").write_text(f"{json.dumps(kept, indent=2)}\n", encoding="utf-8")
            pairs = [line.partition(" ") for line in done.stdout.split("\n") if line]
            (logs / f"{rank.name}.log").write_text("".join(f"{text}\n" for _, _, text in pairs), encoding="utf-8")
            (logs / f"{rank.name}.times").write_text("".join(f"{time}\n" for time, _, _ in pairs), encoding="utf-8")
            return rank.name

        def reached(rank: RankPlan) -> str | None:
            with suppress(Unreachable):
                return fetch(rank)
            return None

        return {name for name in self._reach.each(reached, plan.ranks) if name is not None}

    def follow(self, plan: GroupPlan, group: str, logs: Path, lines: int) -> dict[str, tuple[Place, tuple[str, ...]]]:
        found = self._reach.each(lambda rank: self._inspect(rank, group), plan.ranks)
        return {
            rank.name: (
                rank.place,
                tuple(
                    rank.place.docker(
                        *("logs", "--follow", "--tail", str(lines), "--since", box["State"]["StartedAt"], box["Id"])
                    )
                ),
            )
            for rank, box in zip(plan.ranks, found, strict=True)
            if box is not None
        }

    def api_url(self, plan: GroupPlan, group: str) -> str:
        return plan.api_url

    def tidy(self, owner: str, keep: set[str], plans: Sequence[GroupPlan]) -> None:
        def clear(place: Place) -> None:
            listed = self._reach.docker(
                place,
                *("ps", "--all", "--no-trunc", "--filter", f"label={GROUP}"),
                *("--filter", "status=exited", "--filter", "status=created"),
                *("--format", f'{{{{.ID}}}} {{{{.Label "{GROUP}"}}}}'),
            )
            pairs = [line.split(" ", 1) for line in listed.splitlines()]
            old = [name for name, mark in pairs if mark.startswith(f"{owner}/") and mark not in keep]
            if old:
                self._reach.docker(place, "rm", *old)

        self._reach.each(lambda place: self._asked(place, lambda: clear(place), None), self._all(plans))

    def _all(self, plans: Sequence[GroupPlan]) -> list[Place]:
        """The nodes of the cluster and of these plans, each once."""
        return list(dict.fromkeys([*self._places, *(rank.place for plan in plans for rank in plan.ranks)]))

    def _asked(self, place: Place, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask() if place not in self._unreached else otherwise
        except Unreachable as error:
            if place in self._places:
                raise
            self._unreached.add(place)
            self._say(
                f"warning: node {place.name} ({place.address}) is in the cluster file no more and is not reached, so"
                f" what may still run there stays: {error}"
            )
            return otherwise

    def _start(self, rank: RankPlan, group: str) -> None:
        place = rank.place
        planned = at_home(rank, self._reach.home(place))
        assert planned.container is not None, "a plan of this engine has containers"
        there = self._inspect(rank, group)
        if there is not None:
            self._reach.docker(place, "start", there["Id"])
            return
        # Docker would make a missing folder of a mount as root's, or not at all.
        writable = [mount.source for mount in planned.container.mounts if not mount.read_only]
        if writable:
            done = self._reach.run(place, ("mkdir", "-p", "--", *writable))
            if done.returncode:
                raise Refused(f"node {place.name}: {done.stderr.strip()}", hint="change paths.cache of the cluster")
        secrets = {name: resolve(reference) for name, reference in planned.secrets.items()}
        words = run_argv(marked(planned, group))
        words = words[words.index("run") :]
        try:
            self._reach.docker(place, *words, variables=secrets)
        except Unreachable:
            # It may have come that far before the connection broke.
            there = self._inspect(rank, group)
            if there is not None:
                self._reach.docker(place, "start", there["Id"])
            else:
                self._reach.docker(place, *words, variables=secrets)

    def _look(self, rank: RankPlan, group: str) -> Look:
        known = self._mains.pop((group, rank.rank), None)
        if known is not None:
            # Without the engine: that answers late on a busy node, and not at all when it hangs itself.
            now = self._main(rank, known.pid)
            if now is not None and now.began == known.began:
                self._mains[group, rank.rank] = now
                return now.of(rank)
        found = self._inspect(rank, group, LOOK_SECONDS, once=True)
        if found is None or not found["State"]["Running"]:
            return Look(rank.name, rank.rank, alive=False, why=ended(found["State"]) if found else "")
        now = self._main(rank, int(found["State"]["Pid"]))
        if now is None:
            # An engine on another machine than the node's, or in a machine of its own there.
            return Look(
                rank.name, rank.rank, alive=True, held="its container is paused" if found["State"]["Paused"] else None
            )
        self._mains[group, rank.rank] = now
        return now.of(rank)

    def _main(self, rank: RankPlan, pid: int) -> "_Main | None":
        turns = self._turns.setdefault(rank.place, Turns())
        ask = turns.now(pid)
        done = self._reach.run(rank.place, look_words(pid, ask), seconds=LOOK_SECONDS, once=True)
        first, *more = done.stdout.splitlines() or [""]
        fields = first.split()
        if len(fields) != 5:
            return None
        unanswered = turns.told(pid, more) if ask is not None else None
        return _Main(pid, fields[1], int(fields[2]) / _TICKS, fields[3] == "1", fields[4], unanswered)

    def _inspect(self, rank: RankPlan, group: str, seconds: float = 0, *, once: bool = False) -> dict[str, Any] | None:
        """The rank's container, running or not."""

        def listed(*filters: str) -> list[str]:
            return self._list(rank.place, *filters, every=True, seconds=seconds, once=once)

        # An adopted one that is gone was made again, with labels.
        names = [it for name in _adopted(rank) for it in listed(f"id={name}")]
        names = names or listed(_of(group), f"label={RANK}={rank.rank}")
        if not names:
            return None
        told = self._reach.docker(rank.place, "inspect", names[0], seconds=seconds, once=once)
        found: list[dict[str, Any]] = json.loads(told)
        return found[0]

    def _list(
        self, place: Place, *filters: str, every: bool = False, seconds: float = 0, once: bool = False
    ) -> list[str]:
        words = ["ps", "--quiet", "--no-trunc", *(["--all"] if every else [])]
        words += [word for it in filters for word in ("--filter", it)]
        return self._reach.docker(place, *words, seconds=seconds, once=once).split()

    def _labels(self, place: Place, only: str, label: str) -> set[str]:
        """The values that the label has on running containers."""
        words = ("ps", "--filter", only, "--format", f'{{{{.Label "{label}"}}}}')
        return set(self._reach.docker(place, *words).splitlines())


@dataclass(frozen=True)
class _Main:
    """The main process of a container, as the node's kernel shows it, with all its descendants: look.awk."""

    pid: int
    began: str
    spent: float
    disk: bool
    held: str
    unanswered: tuple[Unanswered, ...] | None

    def of(self, rank: RankPlan) -> Look:
        words = {"0": None, "frozen": "its container is paused"}
        held = words.get(self.held, f"process {self.held} is stopped")
        return Look(
            rank.name,
            rank.rank,
            alive=True,
            held=held,
            spent=self.spent,
            disk=self.disk,
            unanswered=self.unanswered,
        )


def ended(state: dict[str, Any]) -> str:
    """How a container ended, from the State that `docker inspect` tells."""
    if state.get("Status") == "created":
        return f"its container was never started{f': {error}' if (error := state.get('Error')) else ''}"
    code = int(state.get("ExitCode", 0))
    told = f"its container ended with exit code {code}"
    if state.get("OOMKilled"):
        told = f"the kernel's out-of-memory killer struck in its container, which ended with exit code {code}"
    elif code == 128 + signal.SIGKILL:
        told += ", as after kill -9"
    return f"{told}: {state['Error']}" if state.get("Error") else told


def marked(rank: RankPlan, group: str) -> RankPlan:
    """The rank with the group's mark on its container, which has a name of its own for each revision."""
    box = rank.container
    assert box is not None
    name = f"{box.name}.{group.rpartition('/')[2]}"
    return replace(rank, container=replace(box, name=name, labels={**box.labels, GROUP: group}))


def differences(rank: RankPlan, found: dict[str, Any]) -> list[str]:
    """In what a container differs from its rank's plan; `found` is what `docker inspect` says."""
    assert rank.container is not None
    wrong = []
    if found["Image"] != rank.container.image:
        wrong.append(f"image is {found['Image']}, planned was {rank.container.image}")
    config = found["Config"]
    argv = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    if argv != list(rank.argv):
        wrong.append(f"arguments are {argv!r}, planned were {list(rank.argv)!r}")
    running = dict(line.split("=", 1) for line in config.get("Env") or () if "=" in line)
    for name, value in rank.env.items():
        if running.get(name) != value:
            wrong.append(f"{name} is {running.get(name)!r}, planned was {value!r}")
    if restarts := found.get("RestartCount", 0):
        wrong.append(f"its engine started it again {restarts} times, alone; a group starts as one")
    return wrong


def _adopted(rank: RankPlan) -> list[str]:
    """The id of the container that was adopted for the rank, if one was: the only unlabelled one that is touched."""
    return [rank.container.adopted.id] if rank.container and rank.container.adopted else []


def _of(group: str) -> str:
    return f"label={GROUP}={group}"
