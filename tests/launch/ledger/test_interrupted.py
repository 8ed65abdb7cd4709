"""Ctrl-C, SIGTERM and SIGHUP: the old group is back before the command ends."""

import signal

import pytest

from launch.group import transition
from launch.ledger import launch as ledger
from launch.ledger.history import history
from tests.standin.hooks import at_call
from tests.standin.points import POINTS
from tests.standin.world import World

EVERYWHERE = {"while it plans": at_call(ledger, "want", 1), **POINTS}


@pytest.fixture
def running(world: World) -> World:
    world.brief_trials()
    world.done("launch", "pair")
    return world


@pytest.mark.parametrize("point", EVERYWHERE)
def test_the_old_group_is_back_after_ctrl_c(running: World, point: str) -> None:
    hook = EVERYWHERE[point](signal.SIGINT)
    result = running.begin("launch", "pair", "--profile", "c", before=hook).wait()
    assert (result.exit, "interrupted" in result.err, "Traceback" in result.err) == (2, True, False), result.err
    assert running.running() == [1]
    assert running.answers()
    past = history(running.journal().entries)
    assert (past.running, past.unfinished) == (1, None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("fault", ["hangs-at-start", "hangs-on-requests"])
def test_a_launch_that_hangs_is_ended_at_once(running: World, fault: str, number: signal.Signals) -> None:
    running.profile("h", fault, env={"VLLM_ENGINE_READY_TIMEOUT_S": "300"})
    command = running.begin("launch", "pair", "--profile", "h")
    command.says("start revision 2")
    command.signal(number)
    result = command.wait()
    assert (result.exit, "interrupted" in result.err) == (2, True), result.err
    assert running.running() == [1]
    assert running.answers()


def test_a_second_ctrl_c_leaves_what_the_next_command_mends(running: World) -> None:
    twice = at_call(transition, "wait_until_ready", 1, 2)(signal.SIGINT)
    result = running.begin("launch", "pair", "--profile", "c", before=twice).wait()
    assert result.exit == 3
    assert "left: rank 0" in result.err
    assert history(running.journal().entries).unfinished == 2
    assert running.run("status", "pair", "--json").document["state"] == "unfinished"
    running.done("launch", "pair", "--profile", "c")
    assert running.greeting() == "patched"


def test_under_nohup_a_closed_terminal_does_not_end_a_launch(world: World) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        at_call(transition, "wait_until_ready", 1)(signal.SIGHUP)()

    assert world.begin("launch", "pair", before=ignore).wait().exit == 0


def test_an_interrupted_stop_says_that_something_may_still_run(running: World) -> None:
    hook = POINTS["while the old group stops"](signal.SIGINT)
    result = running.begin("stop", "pair", before=hook).wait()
    assert (result.exit, "some ranks may still run" in result.err) == (3, True)
    running.done("stop", "pair")
    assert running.processes() == []


def test_an_interrupted_command_prints_one_document(running: World) -> None:
    hook = POINTS["while the new group gets ready"](signal.SIGINT)
    result = running.begin("launch", "pair", "--profile", "c", "--json", before=hook).wait()
    assert result.document["error"]["exit"] == 2
    assert result.document["error"]["revision"] == 2
