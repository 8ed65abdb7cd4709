"""The process engine: ranks as processes of this machine, found again by a mark in their environment.

A rank is a session of its own, so that it outlives the command that started it. vLLM renames its processes and
its children survive their parent, so neither names nor parents say what belongs to a rank: the mark does.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from launch.engines import shared
from launch.engines.base import Look, RankState
from launch.engines.kernel import Turns, Unanswered, look_words
from launch.engines.secrets import resolve
from launch.engines.tail import ending
from launch.plan.group import GroupPlan, RankPlan, at_home
from launch.plan.place import Place
from recipe.errors import NeedsOperator, Refused

MARK = "HALLMARK_GROUP"
RANK = "HALLMARK_RANK"
# What a process needs to know of its user; everything else that a rank sees is written in the plan.
_FROM_HOST = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")
_POLL = 0.02
_BLINK = 0.001


@dataclass(frozen=True)
class Process:
    """One running process that carries the mark; `main` is the one that the engine started itself."""

    pid: int
    group: str
    rank: int
    main: bool


class ProcessEngine:
    """Runs ranks as local processes; every node must be this machine."""

    look_seconds = 0.05

    def __init__(self) -> None:
        # Held so that nobody waits for them: a rank outlives this command.
        self._started: list[subprocess.Popen[bytes]] = []
        self._turns = Turns()

    def start(self, plan: GroupPlan, group: str, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        for rank in sorted(plan.ranks, key=lambda rank: rank.rank, reverse=True):
            self._started.append(_spawn(at_home(rank, str(Path.home())), group, logs / f"{rank.name}.log"))

    def ranks(self, plan: GroupPlan, group: str) -> list[RankState]:
        found = _of(group)
        states = []
        for rank in plan.ranks:
            own = [process for process in found if process.rank == rank.rank]
            alive = any(process.main for process in own)
            states.append(RankState(rank.name, rank.rank, alive, tuple(process.pid for process in own)))
        return states

    def look(self, plan: GroupPlan, group: str) -> list[Look]:
        found = _of(group)
        looks = [_look(rank, [process for process in found if process.rank == rank.rank]) for rank in plan.ranks]
        mains = {process.rank: process.pid for process in found if process.main}
        return [replace(it, unanswered=_unanswered(self._turns, mains.get(it.rank))) for it in looks]

    def drift(self, plan: GroupPlan, group: str) -> dict[int, list[str]]:
        mains = {process.rank: process.pid for process in _of(group) if process.main}
        found: dict[int, list[str]] = {rank.rank: [] for rank in plan.ranks}
        for rank in plan.ranks:
            if rank.rank not in mains:
                continue
            running = _environment(mains[rank.rank])
            for name, value in at_home(rank, str(Path.home())).env.items():
                if running.get(name) != value:
                    found[rank.rank].append(f"{name} is {running.get(name)!r}, planned was {value!r}")
        return found

    def groups(self, owner: str, plans: Sequence[GroupPlan]) -> set[str]:
        return {process.group for process in marked(owner)}

    def collect(self, plan: GroupPlan, group: str, logs: Path) -> set[str]:
        """Nothing to do: the ranks write there themselves, each start into a file of its own."""
        return {rank.name for rank in plan.ranks}

    def follow(self, plan: GroupPlan, group: str, logs: Path, lines: int) -> dict[str, tuple[Place, tuple[str, ...]]]:
        mains = {process.rank: process.pid for process in _of(group) if process.main}
        return {
            rank.name: ending(rank.name, logs, lines, mains.get(rank.rank))
            for rank in plan.ranks
            if (logs / f"{rank.name}.log").exists()
        }

    def tidy(self, owner: str, keep: set[str], plans: Sequence[GroupPlan]) -> None:
        """Nothing to do: a process that ended has left nothing behind."""

    def api_url(self, plan: GroupPlan, group: str) -> str:
        return plan.api_url

    def stop(self, plan: GroupPlan, group: str, patience: float) -> None:
        asked: set[int] = set()
        deadline = time.monotonic() + patience
        # Seen twice, because the mark of a child that begins a program just now cannot be read for a moment.
        seen_empty = 0
        files: set[tuple[Path, int]] = set()
        known: set[int] = set()
        while seen_empty < 2:
            left = _of(group)
            # Once for each process: before it is told to end, which may be too late for one that is killed.
            fresh = {process.pid for process in left} - known
            files |= shared.mapped(fresh)
            known |= fresh
            seen_empty = 0 if left else seen_empty + 1
            # Children whose main process is gone have nobody left to tell them.
            ranks_with_main = {process.rank for process in left if process.main}
            expired = time.monotonic() > deadline
            for process in left:
                if expired or process.rank not in ranks_with_main:
                    _signal(process, signal.SIGKILL)
                elif process.main and process.pid not in asked:
                    asked.add(process.pid)
                    _signal(process, signal.SIGTERM)
                    # One that a signal holds cannot hear it.
                    _signal(process, signal.SIGCONT)
            if time.monotonic() > deadline + 10:
                pids = ", ".join(str(process.pid) for process in left)
                raise NeedsOperator(f"processes {pids} of {group} cannot be ended", hint="see what holds them")
            time.sleep(_POLL)
        shared.remove(files)


def _look(rank: RankPlan, own: Sequence[Process]) -> Look:
    fields = {process.pid: _stat(process.pid) for process in own}
    states = {pid: values[0] for pid, values in fields.items() if values}
    held = next((f"process {pid} is stopped" for pid, state in states.items() if state == "T"), None)
    # Those of children that ended too.
    ticks = sum(int(tick) for values in fields.values() if values for tick in values[11:15])
    alive = any(process.main for process in own)
    return Look(
        rank.name, rank.rank, alive, held=held, spent=ticks / os.sysconf("SC_CLK_TCK"), disk="D" in states.values()
    )


def _unanswered(turns: Turns, pid: int | None) -> tuple[Unanswered, ...] | None:
    if pid is None or (ask := turns.now(pid)) is None:
        return None
    done = subprocess.run(look_words(pid, ask), capture_output=True, text=True, check=False)
    return turns.told(pid, done.stdout.splitlines()[1:])


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may have spaces; none of a process that ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def marked(prefix: str) -> list[Process]:
    """Every process of this machine whose mark begins with `prefix`; zombies do not count."""
    return [process for process in _scan() if process.group.startswith(prefix)]


def _of(group: str) -> list[Process]:
    return [process for process in _scan() if process.group == group]


def _scan() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        values = _environment(int(entry.name))
        if MARK not in values or not values.get(RANK, "").isdigit():
            continue
        pid = int(entry.name)
        try:
            main = os.getsid(pid) == pid
        except ProcessLookupError:
            continue
        yield Process(pid, values[MARK], int(values[RANK]), main)


def _environment(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    items = (item.partition("=") for item in raw.decode(errors="replace").split("\0"))
    return {name: value for name, found, value in items if found}


def _spawn(rank: RankPlan, group: str, log: Path) -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in _FROM_HOST if name in os.environ}
    environment |= rank.env | {name: resolve(reference) for name, reference in rank.secrets.items()}
    # setproctitle would overwrite the environment that the mark is read from.
    environment |= {MARK: group, RANK: str(rank.rank), "SPT_NOENV": "1"}
    keep(log)
    with log.open("xb") as output:
        try:
            process = subprocess.Popen(
                rank.argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=log.parent,
            )
        except OSError as error:
            raise Refused(f"rank {rank.rank} ({rank.name}) cannot be started: {error}") from None
    # The kernel shows the environment of a new program a moment after Popen returns; until then it looks dead.
    while process.poll() is None and MARK not in _environment(process.pid):
        time.sleep(_BLINK)
    return process


def keep(log: Path) -> None:
    """Move the log of an earlier start of this revision aside, so that a log tells of one start."""
    number = 1
    while log.exists():
        older = log.with_suffix(f".{number}.log")
        if not older.exists():
            log.rename(older)
        number += 1


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)
