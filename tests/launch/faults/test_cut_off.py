"""A node that vanishes before, during and after each step of the journal (area E; issue 7, robustness).

The node keeps its processes and nobody reaches it, the worst of all ways to go. Whatever the command says then,
once the node is back the same command ends in the new group.
"""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from launch.engines.containers import DockerEngine
from launch.group import transition
from launch.group.journal import Event, Journal
from launch.ledger import launch as ledger
from launch.nodes import reach
from launch.nodes.image import StagedImage
from scripts.engines.network import Namespace
from scripts.faults.plays import Row
from tests.standin.pair import PATCHED, PLAIN, Pair

pytestmark = pytest.mark.docker
Vanish = Callable[[], object]


def network(pair: Pair, number: int) -> Namespace:
    found = pair.nodes.engines[number].network
    assert found is not None
    return found


def at_event(event: Event) -> Callable[[pytest.MonkeyPatch, Vanish], None]:
    """As soon as it is written."""

    def strike(patch: pytest.MonkeyPatch, vanish: Vanish) -> None:
        real = Journal.append

        def append(self: Journal, wanted: Event, *words: Any, **data: Any) -> Any:
            entry = real(self, wanted, *words, **data)
            if wanted is event:
                vanish()
            return entry

        patch.setattr(Journal, "append", append)

    return strike


def at_call(owner: object, name: str) -> Callable[[pytest.MonkeyPatch, Vanish], None]:
    """Before its first call."""

    def strike(patch: pytest.MonkeyPatch, vanish: Vanish) -> None:
        real = getattr(owner, name)
        called: list[object] = []

        def call(*words: Any, **named: Any) -> Any:
            if not called:
                called.append(vanish())
            return real(*words, **named)

        patch.setattr(owner, name, call)

    return strike


# By where the worker vanishes: the exit statuses that are right, and what is told.
POINTS: dict[str, tuple[Callable[[pytest.MonkeyPatch, Vanish], None], set[int], str]] = {
    "before INTENT": (at_call(ledger, "take"), {5}, "node right"),
    "after INTENT": (at_event(Event.INTENT), {2, 5}, "right"),
    "while the image is staged": (at_call(StagedImage, "stage"), {2, 5}, "right"),
    "after STAGED": (at_event(Event.STAGED), {3}, "ranks of revision 2 cannot be seen"),
    "while the old group stops": (at_call(DockerEngine, "stop"), {3}, "node right"),
    "after STOPPED": (at_event(Event.STOPPED), {3}, "node right"),
    "while the new group gets ready": (
        at_call(transition, "wait_until_ready"),
        {3},
        "rank 1 (right) was cut off while it started",
    ),
    "after STARTED": (at_event(Event.STARTED), {3}, "right"),
    "after COMMITTED": (at_event(Event.COMMITTED), {0}, ""),
}
# In CI; `make faults` has all of them.
IN_CI = ("before INTENT", "after STAGED", "while the new group gets ready", "after COMMITTED")


@pytest.mark.parametrize("point", POINTS)
def test_a_launch_ends_in_the_new_group_once_the_node_is_back(
    request: pytest.FixtureRequest, apart: Pair, point: str
) -> None:
    if point not in IN_CI and not request.config.getoption("--every-fault"):
        pytest.skip("with --every-fault")
    strike, statuses, says = POINTS[point]
    apart.world.done("launch", "pair", "--image", PLAIN)
    right = network(apart, 1)
    began = time.monotonic()
    # A process of its own: the lock that it leaves on the lost node gives way to the next one only because it is gone.
    command = apart.world.begin(
        "launch", "pair", "--image", PATCHED, before=lambda: strike(pytest.MonkeyPatch(), right.vanish)
    )
    result = command.wait(120)
    told = time.monotonic() - began
    assert result.exit in statuses, result.err
    assert says in result.err, result.err
    if result.exit != 0:
        assert "right" in result.err
    found = apart.world.run("status", "pair", "--json").document
    assert found["state"] in ("degraded", "unfinished"), found
    right.back()
    apart.world.done("launch", "pair", "--image", PATCHED)
    assert apart.serves(PATCHED)
    assert apart.world.done("status", "pair")["state"] == "running"
    # For the table of `make faults`.
    line = next((it[10:] for it in result.err.splitlines() if it.startswith("hallmark: ")), "the launch was done")
    happened = f"exit {result.exit}: {line[:160]}; once it was back, the same command ended in the new group"
    row = Row(f"the second node vanishes {point}", happened, told, "the operator was told")
    request.node.user_properties.append(("fault", json.dumps(asdict(row))))


def test_what_a_status_and_a_stop_say_of_a_node_that_is_cut_off(apart: Pair) -> None:
    """E2: stop works with one node unreachable, names it, and is not done; the other way round likewise."""
    apart.world.done("launch", "pair", "--image", PLAIN)
    left, right = network(apart, 0), network(apart, 1)
    right.vanish()
    found = apart.world.run("status", "pair", "--json")
    assert (found.exit, found.document["state"], found.document["ready"]) == (2, "degraded", False)
    assert [rank["reached"] for rank in found.document["ranks"]] == [True, False]
    assert found.document["missing"] == "rank 1 (right) is not reached"
    result = apart.world.run("stop", "pair")
    assert (result.exit, "node right" in result.err) == (5, True), result.err
    assert [bool(marks) for marks in apart.running()] == [False, True]
    right.back()
    assert apart.world.done("stop", "pair")["stopped"] == [1]
    assert apart.running() == [set(), set()]
    for engine in apart.nodes.engines:
        words = ("ps", "--all", "--quiet", "--filter", "label=dev.hallmark.cluster=pair")
        assert engine.docker(*words).stdout == ""
    assert apart.world.done("stop", "pair")["stopped"] == []

    apart.world.done("launch", "pair", "--image", PLAIN)
    left.vanish()
    assert apart.world.run("status", "pair").exit == 5
    result = apart.world.run("stop", "pair")
    assert (result.exit, "node left" in result.err) == (5, True), result.err
    assert [bool(marks) for marks in apart.running()] == [True, False]
    left.back()
    apart.world.done("stop", "pair")
    assert apart.running() == [set(), set()]


def test_a_cable_that_is_pulled_while_the_group_serves_is_seen_by_its_heartbeat(
    apart: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E1: both nodes are reached, both ranks run, and /health says 200."""
    monkeypatch.setattr("launch.proof.heartbeat.beat.__kwdefaults__", {"deadline": 1.0, "api_key": None})
    monkeypatch.setattr("launch.proof.heartbeat._METRICS_SECONDS", 0.5)
    apart.world.done("launch", "pair", "--image", PLAIN)
    network(apart, 1).unplug()
    found = apart.world.run("status", "pair", "--json").document
    assert (found["state"], [rank["alive"] for rank in found["ranks"]]) == ("degraded", [True, True])
    assert "no token comes back" in found["missing"]


def test_a_container_that_is_paused_is_named(apart: Pair) -> None:
    apart.world.done("launch", "pair", "--image", PLAIN)
    second = apart.nodes.engines[1]
    [name] = second.docker("ps", "--quiet").stdout.split()
    second.docker("pause", name)
    try:
        found = apart.world.run("status", "pair", "--json").document
        assert found["missing"] == "rank 1 (right) hangs: its container is paused"
    finally:
        second.docker("unpause", name)


def test_an_engine_that_hangs_is_told_of_in_seconds_and_its_ranks_are_seen_without_it(
    apart: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dockerd that is stopped by a signal was waited for for two minutes."""
    monkeypatch.setattr(reach, "_QUESTION_SECONDS", 4.0)
    apart.world.done("launch", "pair", "--image", PLAIN)
    pid = apart.nodes.engines[1].daemon.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        result = apart.world.run("launch", "pair", "--image", PATCHED)
        assert (result.exit, "node right did not end `docker" in result.err) == (5, True), result.err
    finally:
        os.kill(pid, signal.SIGCONT)
    assert apart.serves(PLAIN)
