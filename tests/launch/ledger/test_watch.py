"""The watch on the StandIn: it restarts what is lost, and keeps its hands off everything else."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from launch.group.backoff import Backoff
from launch.group.journal import Event
from launch.ledger.watch import MISSES, Watch
from launch.ledger.work import work
from launch.nodes.lock import locked
from recipe.errors import NeedsOperator
from scripts.engines.packages import program
from tests.conftest import possible
from tests.standin.hooks import at_event
from tests.standin.world import World, until

KILLED = 128 + signal.SIGKILL


@pytest.fixture
def running(world: World) -> World:
    world.brief_trials()
    world.done("launch", "pair")
    return world


def watching(world: World, **how: object) -> tuple[Watch, list[str]]:
    said: list[str] = []
    return Watch(lambda: work(world.home, "pair", said.append), said.append, **how), said  # type: ignore[arg-type]


def kill(world: World, rank: int) -> None:
    os.kill(world.pid(rank, main=True), signal.SIGKILL)
    until(lambda: not any(it.main and it.rank == rank for it in world.processes()))


@pytest.mark.parametrize("rank", [0, 1], ids=["head", "worker"])
def test_a_group_that_lost_a_rank_is_started_again_as_one_and_the_journal_says_why(running: World, rank: int) -> None:
    before = {it.pid for it in running.processes()}
    kill(running, rank)
    watch, said = watching(running)
    assert watch.round().state == "lost"
    assert running.answers()
    assert not before & {it.pid for it in running.processes()}
    assert running.running() == [1]
    assert (watch.round().state, watch.restarts) == ("well", 1)
    reason = f"rank {rank} ({['left', 'right'][rank]}) does not run"
    restarts = running.done("history", "pair")["restarts"]
    assert [(it["event"], it["revision"]) for it in restarts] == [("restarting", 1), ("restarted", 1)]
    assert restarts[0]["reason"] == reason
    assert any("answers again after" in line for line in said)
    assert running.done("status", "pair")["state"] == "running"
    assert f"restarting: {reason}" in running.run("history", "pair").out


def test_requests_that_hang_count_after_some_misses(running: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launch.proof.heartbeat._METRICS_SECONDS", 0.2)
    worker = running.pid(1, main=False)
    os.kill(worker, signal.SIGSTOP)
    watch, _ = watching(running)
    # A held process is seen at once; this one is of a rank whose processes nobody can see.
    monkeypatch.setattr("launch.engines.process._stat", lambda pid: [])
    monkeypatch.setattr("launch.proof.heartbeat.beat.__kwdefaults__", {"deadline": 0.3, "api_key": None})
    assert [watch.round().state for _ in range(MISSES)] == ["silent"] * MISSES
    assert running.answers()
    assert watch.restarts == 1


def test_it_waits_while_somebody_holds_the_lock(running: World) -> None:
    kill(running, 1)
    watch, said = watching(running)
    with locked(running.store().lock, "to look at it"):
        assert watch.round().state == "paused"
    assert "to look at it" in said[-1]
    assert {it.rank for it in running.processes() if it.main} == {0}


def test_what_was_stopped_on_purpose_stays_stopped(running: World) -> None:
    running.done("stop", "pair")
    watch, _ = watching(running)
    assert (watch.round().state, watch.round().state) == ("paused", "paused")
    assert running.processes() == []


def test_a_stop_that_did_not_come_to_its_end_is_on_purpose_too(running: World) -> None:
    hook = at_event(Event.STOPPED, written=False)(signal.SIGKILL)
    assert running.begin("stop", "pair", before=hook).wait().exit == KILLED
    watch, _ = watching(running)
    assert watch.round().state == "paused"
    assert running.processes() == []


def test_it_leaves_a_launch_that_was_killed_to_the_next_command(running: World) -> None:
    hook = at_event(Event.STOPPED, written=True)(signal.SIGKILL)
    assert running.begin("launch", "pair", "--profile", "c", before=hook).wait().exit == KILLED
    watch, said = watching(running)
    assert watch.round().state == "paused"
    assert "revision 2 is unfinished" in said[-1]


def test_restarts_have_pauses_and_a_limit_also_over_watches(running: World) -> None:
    backoff = Backoff(limit=2, first=60)
    kill(running, 1)
    watching(running, backoff=backoff)[0].round()
    kill(running, 1)
    watch, said = watching(running, backoff=backoff)
    watch.round()
    assert any(line.startswith("restart of revision 1 in ") for line in said)
    assert {it.rank for it in running.processes() if it.main} == {0}
    watching(running, backoff=Backoff(limit=2, first=0))[0].round()
    kill(running, 1)
    watch, _ = watching(running, backoff=backoff)
    with pytest.raises(NeedsOperator, match=r"2 restarts in 60 minutes did not help"):
        watch.round()
    assert running.done("history", "pair")["restarts"][-1]["event"] == "gave-up"


def test_a_restart_that_fails_is_recorded_and_tried_again(running: World) -> None:
    kill(running, 1)
    script = running.venv / "bin" / "vllm"
    content = script.read_text()
    script.write_text("#!/bin/false\n")
    watch, said = watching(running, backoff=Backoff(first=0))
    watch.round()
    assert any("was not restarted: " in line for line in said)
    script.write_text(content)
    watch.round()
    assert running.answers()
    events = [it["event"] for it in running.done("history", "pair")["restarts"]]
    assert events == ["restarting", "not-restarted", "restarting", "restarted"]


def test_the_unit_is_one_that_systemd_takes_and_its_command_run_by_hand_watches(running: World, tmp_path: Path) -> None:
    found = running.done("service", "install", "pair", "--dry-run")
    path = tmp_path / found["unit"]
    path.write_text(found["text"])
    with possible():
        analyze = program("systemd-analyze", "systemd")
    done = subprocess.run([analyze, "verify", str(path)], check=False, capture_output=True, text=True)
    assert (done.returncode, str(path) in done.stderr) == (0, False), done.stderr
    [line] = [line for line in found["text"].splitlines() if line.startswith("ExecStart=")]
    assert "\nRestartPreventExitStatus=1 3 4\n" in found["text"]
    assert "KillMode=process" in found["text"]
    kill(running, 1)
    command = [word.strip('"') for word in line.removeprefix("ExecStart=").split(" ")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as watch:
        try:
            assert watch.stderr is not None
            assert any("answers again after" in told for told in iter(watch.stderr.readline, ""))
        finally:
            watch.terminate()
        assert watch.wait(30) == 0
    assert running.answers()


def test_a_service_that_would_not_have_its_secrets_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "hidden")
    world.profile("a", env={"VLLM_API_KEY": "env:THE_KEY"})
    world.done("launch", "pair")
    result = world.run("service", "install", "pair", "--dry-run")
    assert (result.exit, "the secret env:THE_KEY" in result.err) == (2, True), result.err
