"""`hallmark lock`, and what a command does that meets a lock or loses its own."""

import os
import signal
from typing import Any

import pytest

from launch.group import ready, transition
from launch.group.journal import Event
from launch.nodes import lock
from launch.nodes.lock import Lock
from launch.nodes.shelf import shelves
from tests.standin.hooks import at_event
from tests.standin.world import World


@pytest.fixture
def held(world: World, monkeypatch: pytest.MonkeyPatch) -> Lock:
    """Somebody on another machine has the lock of the world's cluster."""
    with monkeypatch.context() as there:
        there.setattr(lock, "_boot", lambda: "another")
        there.setattr(lock, "_host", lambda: "elsewhere")
        there.setattr(lock, "whoami", lambda: "ann@elsewhere")
        found = Lock(shelves(world.loaded()))
        found.take("launch c")
    return found


def test_a_lock_of_another_machine_says_who_since_when_why_and_how_to_break_it(world: World, held: Lock) -> None:
    result = world.run("launch", "pair")
    assert result.exit == 6
    assert f"the cluster is being changed by ann@elsewhere (process {os.getpid()}) since 20" in result.err
    assert ": launch c — try again when it is done; if that process is gone, `hallmark lock break pair`" in result.err
    [node] = world.done("lock", "show", "pair")["nodes"]
    assert (node["node"], node["who"], node["why"], node["alive"]) == ("left", "ann@elsewhere", "launch c", None)
    assert "that process is of another machine" in world.run("lock", "show", "pair").out
    assert not world.journal().entries


def test_a_broken_lock_is_free_and_stands_in_the_history(world: World, held: Lock) -> None:
    result = world.run("lock", "break", "pair", "--yes")
    assert (result.exit, result.out.startswith("broken: left: ann@elsewhere")) == (0, True), result.err
    assert world.done("lock", "show", "pair") == {"cluster": "pair", "holder": None, "nodes": []}
    world.done("launch", "pair")
    found = world.done("history", "pair")
    assert [one["number"] for one in found["revisions"]] == [1]
    [broken] = found["broken_locks"]
    assert broken["held"]["left"].startswith("ann@elsewhere")
    assert "lock broken by" in world.run("history", "pair").out
    assert "nothing to do: nobody holds it" in world.run("lock", "break", "pair").out


def test_a_lock_is_broken_only_after_a_yes(world: World, held: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.confirm", lambda *words, **named: False)
    result = world.run("lock", "break", "pair")
    assert (result.exit, "nothing was changed" in result.err) == (2, True)
    assert "ann@elsewhere" in result.err
    assert world.done("lock", "show", "pair")["holder"].startswith("ann@elsewhere")


def test_a_launch_whose_lock_is_broken_does_nothing_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.brief_trials()
    world.done("launch", "pair")
    real = ready.wait_until_ready

    def broken(*words: Any) -> None:
        real(*words)
        found = Lock(shelves(world.loaded()))
        found.take("lock break", found.owners())
        found.release()

    with monkeypatch.context() as patched:
        patched.setattr(transition, "wait_until_ready", broken)
        result = world.run("launch", "pair", "--profile", "c")
    assert (result.exit, "the lock was broken; this command does nothing more" in result.err) == (6, True), result.err
    assert world.journal().entries[-1].event == "STOPPED"
    assert world.running() == [2]
    world.done("launch", "pair", "--profile", "c")
    assert world.greeting() == "patched"


def test_the_lock_of_a_killed_command_is_taken_by_the_next_one(world: World) -> None:
    hook = at_event(Event.STAGED, written=True)(signal.SIGKILL)
    world.begin("launch", "pair", before=hook).wait()
    found = world.done("lock", "show", "pair")
    assert (found["holder"], [node["alive"] for node in found["nodes"]]) == (None, [False])
    world.done("launch", "pair")
