"""What it costs a controller and a node to look at a rank, beside a bare `ssh host true` of the same run."""

import itertools
import os
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from launch.engines import kernel
from launch.nodes import reach
from launch.nodes.look import look as node_look
from launch.nodes.ssh import VARIABLE
from launch.plan.place import Place
from scripts.engines import ssh
from scripts.engines.engine import Engine
from scripts.engines.process import Background

_TIMES = 30
_RUNS = 5


@dataclass(frozen=True)
class Cost:
    """Seconds of processor time for one: of the controller's side, and of the node's."""

    controller: float
    node: float


@dataclass(frozen=True)
class Asking:
    """The medians of several runs in turns."""

    bare: Cost
    look: Cost
    preflight: Cost


def measure() -> Asking:
    """Measure on an sshd of its own on loopback, which is a node like any other; the engine is not asked in a look."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hallmark-")))
        idle = stack.enter_context(subprocess.Popen(["sleep", "3600"]))
        stack.callback(idle.terminate)
        _alone(stack, idle.pid)
        nothing = Background(["sleep", "3600"], folder / "log")
        stack.callback(nothing.end)
        node = ssh.start(Engine(7, folder, "unix:///nowhere", "docker", nothing), folder / "ssh")
        stack.callback(node.end)
        os.environ[VARIABLE] = str(ssh.configure([node], folder / "ssh"))
        place = Place("node", node.name)
        bare = ["ssh", "-F", os.environ[VARIABLE], "-T", node.name, "true"]
        # As while a group starts: every second look asks for connections, which are only read after packets were sent
        # again.
        turns, odd = kernel.Turns(clock=itertools.count(0, 2).__next__), itertools.cycle((True, False))

        def look() -> None:
            ask = turns.now(idle.pid) if next(odd) else None
            told = reach.run(place, kernel.look_words(idle.pid, ask)).stdout.splitlines()
            assert told[0].startswith(str(idle.pid))
            if ask is not None:
                turns.told(idle.pid, told[1:])

        def ask() -> None:
            subprocess.run(bare, check=True, capture_output=True, stdin=subprocess.DEVNULL)

        def preflight() -> None:
            assert node_look(place, peers=["127.0.0.1"], folders=["~/.hallmark"], ports=[8000, 29501]).programs

        look()
        found: dict[str, list[Cost]] = {"bare": [], "look": [], "preflight": []}
        for _ in range(_RUNS):
            found["bare"].append(_cost(ask, node.daemon.pid))
            found["look"].append(_cost(look, node.daemon.pid))
            found["preflight"].append(_cost(preflight, node.daemon.pid))
    return Asking(*(_median(found[name]) for name in ("bare", "look", "preflight")))


def _alone(stack: ExitStack, pid: int) -> None:
    """Put a process into a control group of its own, as that of a container is. Needs root."""
    root = Path("/sys/fs/cgroup")
    group = (root / "freezer" if (root / "freezer").is_dir() else root) / f"hallmark-figures-{pid}"
    group.mkdir()
    stack.callback(group.rmdir)
    above = group.parent / "cgroup.procs"
    stack.callback(lambda: above.write_text(str(pid)))
    (group / "cgroup.procs").write_text(str(pid))


def _cost(act: Callable[[], None], daemon: int) -> Cost:
    here, there = _here(), _there(daemon)
    for _ in range(_TIMES):
        act()
    return Cost((_here() - here) / _TIMES, (_there(daemon) - there) / _TIMES)


def _here() -> float:
    """Processor time of this process and its children that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(it.ru_utime + it.ru_stime for it in used)


def _there(daemon: int) -> float:
    """Processor time of an sshd, with the sessions that are open and those that ended."""
    ticks, left = 0, [daemon]
    while left:
        pid = left.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            left += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(it.controller for it in costs), statistics.median(it.node for it in costs))
