"""Ranks that die, hang or lose each other, while they start and while they serve."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from launch.engines import kernel, process
from launch.engines.kernel import Unanswered
from launch.engines.process import MARK, RANK
from launch.group import liveness
from launch.ledger.work import Work
from launch.proof.heartbeat import Heartbeat
from tests.standin.world import World, until


def test_a_rank_that_ends_at_start_is_named_with_its_log_and_last_error(world: World) -> None:
    world.profile("f", "fails-at-start")
    result = world.run("launch", "pair", "--profile", "f")
    assert result.exit == 2
    log = world.store().logs(1) / "right.log"
    assert "rank 1 (right) ended while it started" in result.err
    assert "RuntimeError: StandIn was told to fail at start" in result.err
    assert str(log) in result.err
    assert world.processes() == []


def test_the_log_of_the_rank_that_died_is_read_and_not_another_ones(world: World) -> None:
    world.profile("f", "fails-at-start", "warns")
    result = world.run("launch", "pair", "--profile", "f")
    assert "StandIn was told to fail at start" in result.err
    assert "OSError" not in result.err


def test_a_rank_that_hangs_is_given_up_when_its_time_is_over(world: World) -> None:
    world.done("launch", "pair")
    world.profile("h", "hangs-at-start", env={"VLLM_ENGINE_READY_TIMEOUT_S": "0.5"})
    result = world.run("launch", "pair", "--profile", "h")
    assert result.exit == 2
    assert "did not answer within 0.5 s: nothing answers at 127.0.0.1" in result.err
    assert "VLLM_ENGINE_READY_TIMEOUT_S" in result.err
    assert world.running() == [1]


@pytest.mark.parametrize("held", [False, True], ids=["waits", "stopped"])
def test_a_rank_that_hangs_is_found_long_before_its_time_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """One that does nothing, or that a signal holds; the limits themselves are tested beside their code."""
    monkeypatch.setattr(liveness, "IDLE_SECONDS", 60.0 if held else 1.0)
    monkeypatch.setattr(liveness, "HELD_SECONDS", 0.2)
    world.profile("h", "hangs-at-start", env={"VLLM_ENGINE_READY_TIMEOUT_S": "300"})
    command = world.begin("launch", "pair", "--profile", "h")
    until(lambda: [it for it in world.processes() if it.rank == 1])
    if held:
        os.kill(world.pid(1, main=True), signal.SIGSTOP)
    result = command.wait()
    says = "rank 1 (right) hangs: process" if held else "the group hangs: for 1 s no rank used a processor"
    assert (result.exit, says in result.err) == (2, True), result.err
    assert "left: started" in result.err
    assert world.processes() == []


def test_ranks_that_spin_while_nobody_answers_are_found_by_what_the_kernel_sends_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To everybody else they look busy; how long it is waited for is tested beside its code."""
    monkeypatch.setattr(liveness, "UNANSWERED_SECONDS", 0.0)
    world.profile("s", "spins-unanswered", env={"VLLM_ENGINE_READY_TIMEOUT_S": "300"})
    result = world.run("launch", "pair", "--profile", "s")
    says = f"rank 1 (right) gets no answer from 127.0.0.1 port {world.master}, which is left on the fabric"
    assert (result.exit, says in result.err) == (2, True), result.err
    assert "rank 1 (right) stays at 'started' for" in result.err
    assert world.processes() == []


def test_a_rank_that_a_signal_holds_is_named_by_the_status(world: World) -> None:
    """E1: /health of the head goes on saying 200."""
    world.done("launch", "pair")
    pid = world.pid(1, main=True)
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        found = world.run("status", "pair", "--json").document
        assert (found["state"], found["ready"]) == ("degraded", False)
        assert found["missing"] == f"rank 1 (right) hangs: process {pid} is stopped"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert world.done("status", "pair")["state"] == "running"


def test_the_status_names_who_gets_no_answer_when_no_token_comes_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.done("launch", "pair")
    # Here the token is not waited for.
    monkeypatch.setattr(kernel, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(Work, "heartbeat", lambda *_: Heartbeat("silent", "no token comes back"))
    ends = {world.pid(0, main=True): (Unanswered("127.0.0.2", 41007),)}
    monkeypatch.setattr(process, "_unanswered", lambda turns, pid: ends.get(pid, ()))
    missing = world.run("status", "pair", "--json").document["missing"]
    assert missing == "no token comes back; rank 0 (left) gets no answer from 127.0.0.2 port 41007"


def test_requests_that_hang_are_given_up_when_the_time_is_over(world: World) -> None:
    world.profile("h", "hangs-on-requests", env={"VLLM_ENGINE_READY_TIMEOUT_S": "1"})
    result = world.run("launch", "pair", "--profile", "h")
    assert (result.exit, "did not answer within 1 s" in result.err) == (2, True), result.err
    assert world.processes() == []


def test_a_head_that_dies_after_it_was_ready_is_not_taken(world: World) -> None:
    world.done("launch", "pair")
    world.profile("d", "dies-after-ready")
    result = world.run("launch", "pair", "--profile", "d")
    assert (result.exit, "gate acceptance: " in result.err) == (2, True), result.err
    assert world.running() == [1]
    assert world.answers()


def test_a_killed_worker_makes_the_group_degraded_and_names_the_rank(world: World) -> None:
    world.done("launch", "pair")
    os.kill(world.pid(1, main=False), signal.SIGKILL)
    until(lambda: {process.rank for process in world.processes()} == {0})
    found = world.run("status", "pair", "--json")
    assert (found.exit, found.document["state"], found.document["ready"]) == (2, "degraded", False)
    assert [rank["alive"] for rank in found.document["ranks"]] == [True, False]
    assert "rank 1 right: not alive" in world.run("status", "pair").out
    assert "rank 1 (right) does not run" in world.run("status", "pair").out
    assert world.done("launch", "pair")["revision"] == 2
    assert world.answers()


def test_the_orphans_of_a_killed_head_are_found_and_stopped(world: World) -> None:
    world.done("launch", "pair")
    os.kill(world.pid(0, main=True), signal.SIGKILL)
    until(lambda: [process.main for process in world.processes() if process.rank == 0] == [False])
    found = world.run("status", "pair", "--json")
    assert [rank["alive"] for rank in found.document["ranks"]] == [False, True]
    assert world.done("stop", "pair")["stopped"] == [1]
    assert world.processes() == []


def test_orphans_of_every_rank_are_stopped_although_nothing_seems_to_run(world: World) -> None:
    world.done("launch", "pair")
    for rank in (0, 1):
        os.kill(world.pid(rank, main=True), signal.SIGKILL)
    until(lambda: not any(process.main for process in world.processes()))
    assert world.run("status", "pair", "--json").document["state"] == "stopped"
    world.done("stop", "pair")
    assert world.processes() == []


def test_a_headless_rank_of_a_dead_head_does_not_stand_in_the_way_of_the_next_launch(world: World) -> None:
    world.done("launch", "pair")
    os.kill(world.pid(0, main=True), signal.SIGTERM)
    until(lambda: {process.rank for process in world.processes()} == {1})
    world.done("launch", "pair", "--profile", "c")
    assert world.running() == [2]


@pytest.mark.parametrize("marks", [{}, {MARK: "pair-0123456789abcdef/r1", RANK: "0"}, {MARK: "pair", RANK: "0"}])
def test_a_process_without_our_mark_is_never_touched(world: World, marks: dict[str, str]) -> None:
    world.done("launch", "pair")
    words = [sys.executable, "-c", "import sys; sys.stdin.read()", "vllm", "serve", "--node-rank", "0"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=os.environ | marks, start_new_session=True) as decoy:
        world.done("launch", "pair", "--profile", "c")
        world.done("stop", "pair")
        assert decoy.poll() is None
        decoy.communicate(b"")
    assert decoy.returncode == 0


def test_the_log_of_an_earlier_start_of_a_revision_is_kept(world: World) -> None:
    world.done("launch", "pair")
    assert world.run("launch", "pair", "--profile", "b").exit == 2
    logs = world.store().logs(1)
    assert sorted(path.name for path in logs.iterdir()) == ["left.1.log", "left.log", "right.1.log", "right.log"]
    assert "startup complete" in (logs / "left.1.log").read_text()
    assert "startup complete" in (logs / "left.log").read_text()
    assert world.run("logs", "pair").out.count("startup complete") == 1
