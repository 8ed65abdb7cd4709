"""A controller that is killed at any point: the next command ends in the new group or the old one."""

import signal

import pytest

from launch.group.journal import Event
from tests.standin.hooks import at_event
from tests.standin.points import POINTS
from tests.standin.world import World

KILLED = 128 + signal.SIGKILL
# One of each state that the ranks and the journal can be in.
STATES = (
    "after INTENT",
    "while the old group stops",
    "between the starts of two ranks",
    "before STARTED",
    "after STARTED",
    "after COMMITTED",
)


@pytest.fixture
def killed(request: pytest.FixtureRequest, world: World) -> World:
    """A ran when the launch of C was killed."""
    world.brief_trials()
    world.done("launch", "pair")
    _kill(world, request.param)
    return world


def _kill(world: World, point: str) -> None:
    result = world.begin("launch", "pair", "--profile", "c", before=POINTS[point](signal.SIGKILL)).wait()
    assert result.exit == KILLED, result.err


@pytest.mark.parametrize("killed", POINTS, indirect=True)
def test_a_launch_brings_up_the_new_group(killed: World) -> None:
    killed.done("launch", "pair", "--profile", "c")
    assert killed.greeting() == "patched"
    assert killed.answers()
    assert killed.done("status", "pair")["state"] == "running"


@pytest.mark.parametrize("killed", ["after INTENT", "between the starts of two ranks", "after STARTED"], indirect=True)
def test_a_launch_with_an_empty_state_folder_brings_up_the_new_group(killed: World) -> None:
    killed.patches.setenv("HALLMARK_STATE", str(killed.state.with_name("other")))
    killed.done("launch", "pair", "--profile", "c")
    assert killed.greeting() == "patched"
    assert killed.answers()


@pytest.mark.parametrize("killed", STATES, indirect=True)
def test_a_stop_leaves_nothing(killed: World) -> None:
    killed.done("stop", "pair")
    assert killed.processes() == []
    assert "nothing to do" in killed.run("stop", "pair").out
    assert killed.run("status", "pair", "--json").document["state"] == "stopped"
    assert "was left at" not in killed.run("launch", "pair").err
    assert killed.greeting() == "plain"


@pytest.mark.parametrize("point", STATES)
def test_a_rollback_brings_up_the_old_group(world: World, point: str) -> None:
    world.brief_trials()
    world.done("key", "new", "ops")
    world.done("launch", "pair")
    world.done("certify", "pair")
    _kill(world, point)
    world.done("rollback", "pair", "--to", "1")
    assert world.greeting() == "plain"
    assert world.answers()
    assert world.done("status", "pair")["state"] == "running"


@pytest.mark.parametrize("killed", ["after STAGED"], indirect=True)
def test_until_then_the_status_says_that_a_command_was_killed(killed: World) -> None:
    found = killed.run("status", "pair", "--json")
    assert (found.exit, found.document["state"], found.document["ready"]) == (2, "unfinished", False)
    assert killed.run("certify", "pair").exit != 0


def test_a_restore_that_is_killed_is_finished_by_the_next_command(world: World) -> None:
    world.done("launch", "pair")
    hook = at_event(Event.RESTORED, written=False)(signal.SIGKILL)
    assert world.begin("launch", "pair", "--profile", "b", before=hook).wait().exit == KILLED
    assert world.begin("launch", "pair", "--profile", "c", before=hook).wait().exit == KILLED
    world.done("launch", "pair", "--profile", "c")
    assert world.greeting() == "patched"


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("event", [Event.INTENT, Event.STOPPED])
def test_a_stop_that_is_killed_can_be_repeated(world: World, event: Event, written: bool) -> None:
    world.done("launch", "pair")
    hook = at_event(event, written=written)(signal.SIGKILL)
    assert world.begin("stop", "pair", before=hook).wait().exit == KILLED
    world.done("stop", "pair")
    assert world.processes() == []
    world.done("launch", "pair")
    assert world.answers()


def test_a_stop_killed_on_top_of_a_killed_launch_does_not_hide_it(world: World) -> None:
    world.done("launch", "pair")
    _kill(world, "after STOPPED")
    world.begin("stop", "pair", before=at_event(Event.INTENT, written=True)(signal.SIGKILL)).wait()
    again = world.run("launch", "pair")
    assert again.exit == 0
    assert "revision 2 was left at STOPPED" in again.err
    assert [one["state"] for one in world.done("history", "pair")["revisions"]] == ["committed", "restored"]
