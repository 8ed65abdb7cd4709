"""The process engine on small programs: its marks, its patience, and whom it leaves alone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from launch.engines.process import MARK, RANK, ProcessEngine, marked
from launch.plan.group import GroupPlan, RankPlan, Subject
from recipe.config.models import Gates
from recipe.errors import Refused
from tests.standin.world import until

GROUP = f"tests-{os.getpid()}/r1"
WAITS = "import time\ntime.sleep(60)"
STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('set', flush=True)\ntime.sleep(60)"
)
LEAVES_A_CHILD = (
    f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {WAITS!r}])\nprint('set', flush=True)"
)


def plan(*programs: str, env: dict[str, str] | None = None, secrets: dict[str, str] | None = None) -> GroupPlan:
    """A group whose ranks run these Python programs."""
    ranks = tuple(
        RankPlan(f"n{rank}", rank, "local", None, (sys.executable, "-c", text), env or {}, secrets or {}, None, {})
        for rank, text in enumerate(programs)
    )
    subject = Subject("env", "none", None)
    return GroupPlan("tests", "process", "p", ranks, "http://127.0.0.1:1", "m", subject, Gates(trial=(), certify=()))


@pytest.fixture
def engine() -> Iterator[ProcessEngine]:
    yield ProcessEngine()
    for process in marked(GROUP):
        os.kill(process.pid, signal.SIGKILL)
    until(lambda: not marked(GROUP))


def test_ranks_are_alive_as_soon_as_they_are_started_and_found_by_another_engine(
    engine: ProcessEngine, tmp_path: Path
) -> None:
    two = plan(WAITS, WAITS)
    engine.start(two, GROUP, tmp_path / "logs")
    for one in (engine, ProcessEngine()):
        assert [(rank.name, rank.rank, rank.alive) for rank in one.ranks(two, GROUP)] == [
            ("n0", 0, True),
            ("n1", 1, True),
        ]
    assert engine.groups(GROUP[:-1], []) == {GROUP}
    assert [rank.alive for rank in engine.ranks(two, "tests-other/r1")] == [False, False]
    engine.stop(two, GROUP, 10)
    assert marked(GROUP) == []
    engine.stop(two, GROUP, 10)


def test_a_rank_sees_its_plan_and_not_the_environment_of_who_started_it(
    engine: ProcessEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_PORT", "1")
    monkeypatch.setenv("API_KEY", "hidden")
    shows = "import os\nfor pair in sorted(os.environ.items()): print(*pair, sep='=')"
    engine.start(plan(shows, env={"WHERE": "~/x"}, secrets={"KEY": "env:API_KEY"}), GROUP, tmp_path)
    until(lambda: not marked(GROUP))
    text = (tmp_path / "n0.log").read_text()
    assert "WHERE=~/x\n" in text
    assert "KEY=hidden\n" in text
    assert f"{MARK}={GROUP}\n" in text
    assert f"{RANK}=0\n" in text
    assert "VLLM_PORT" not in text


def test_a_rank_that_does_not_listen_is_killed_when_patience_ends(engine: ProcessEngine, tmp_path: Path) -> None:
    stubborn = plan(STUBBORN)
    engine.start(stubborn, GROUP, tmp_path)
    until(lambda: "set" in (tmp_path / "n0.log").read_text())
    began = time.monotonic()
    engine.stop(stubborn, GROUP, 0.3)
    assert marked(GROUP) == []
    assert time.monotonic() - began >= 0.3


def test_children_whose_rank_is_gone_are_ended_without_patience(engine: ProcessEngine, tmp_path: Path) -> None:
    one = plan(LEAVES_A_CHILD)
    engine.start(one, GROUP, tmp_path)
    until(lambda: [process.main for process in marked(GROUP)] == [False])
    [rank] = engine.ranks(one, GROUP)
    assert (rank.alive, len(rank.processes)) == (False, 1)
    engine.stop(one, GROUP, 1000)
    assert marked(GROUP) == []


SHARES = (
    "import os, signal, time\nfrom multiprocessing.shared_memory import SharedMemory\n"
    "from multiprocessing.resource_tracker import unregister\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "made = SharedMemory(create=True, size=64)\nunregister(made._name, 'shared_memory')\n"
    "print(made.name, flush=True)\ntime.sleep(60)"
)


def test_nothing_of_a_killed_rank_is_left_in_shared_memory_and_others_stay(
    engine: ProcessEngine, tmp_path: Path
) -> None:
    one = plan(SHARES)
    with closing(SharedMemory(create=True, size=64)) as strangers:
        engine.start(one, GROUP, tmp_path)
        until(lambda: (tmp_path / "n0.log").read_text().endswith("\n"))
        mine = Path("/dev/shm") / (tmp_path / "n0.log").read_text().strip()
        assert mine.exists()
        engine.stop(one, GROUP, 0.1)
        assert not mine.exists()
        assert (Path("/dev/shm") / strangers.name).exists()
        strangers.unlink()


def test_a_look_tells_what_a_rank_spent_and_what_holds_it(engine: ProcessEngine, tmp_path: Path) -> None:
    one = plan(WAITS)
    engine.start(one, GROUP, tmp_path)
    [rank] = engine.look(one, GROUP)
    assert (rank.alive, rank.reached, rank.held) == (True, True, None)
    assert rank.spent is not None
    [process] = marked(GROUP)
    os.kill(process.pid, signal.SIGSTOP)
    until(lambda: engine.look(one, GROUP)[0].held == f"process {process.pid} is stopped")
    engine.stop(one, GROUP, 30)
    assert [rank.alive for rank in engine.look(one, GROUP)] == [False]


def test_a_program_that_does_not_exist_is_refused_by_name(engine: ProcessEngine, tmp_path: Path) -> None:
    good = plan(WAITS)
    broken = replace(good, ranks=(replace(good.ranks[0], argv=("nowhere",)),))
    with pytest.raises(Refused, match=r"rank 0 \(n0\) cannot be started: .*nowhere"):
        engine.start(broken, GROUP, tmp_path)


def test_a_variable_that_is_not_as_planned_is_drift(engine: ProcessEngine, tmp_path: Path) -> None:
    engine.start(plan(WAITS, env={"A": "1"}), GROUP, tmp_path)
    assert engine.drift(plan(WAITS, env={"A": "1"}), GROUP) == {0: []}
    changed = plan(WAITS, WAITS, env={"A": "2", "B": "3"})
    assert engine.drift(changed, GROUP) == {
        0: ["A is '1', planned was '2'", "B is None, planned was '3'"],
        1: [],
    }


def test_a_mark_without_a_rank_is_not_ours() -> None:
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    env = os.environ | {MARK: GROUP}
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=env) as other:
        assert marked(GROUP) == []
        other.communicate(b"")
