"""A node that vanishes before, during and after each step of the journal, and connections that drop there (area E).

The node keeps its processes and nobody reaches it, the worst of all ways to go. Whatever the command says then, once
the node is back the next one ends in a whole group or in none.
"""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.nodes.image import StagedImage
from recipe.config import paths
from scripts.engines.network import Namespace
from scripts.faults.plays import Row
from tests.standin.hooks import at_call
from tests.standin.pair import HANGING, Pair
from tests.standin.points import IN_CONTAINERS
from tests.standin.world import Result, until

pytestmark = pytest.mark.docker
NODES = ("left", "right")
ON_ITS_WAY = "while the image is on its way"
POINTS = IN_CONTAINERS | {ON_ITS_WAY: at_call(StagedImage, "_bring", 1)}
_CASES = yaml.safe_load((paths.CHECKOUT / "tests/cases/faults/cut-off.yaml").read_text(encoding="utf-8"))
CASES: dict[str, dict[str, Any]] = {f"{it['command']}, {it['loses']}, {it['at']}": it for it in _CASES}
# Far more than any of these commands takes here.
BOUND = 90.0
DROPS = ("before INTENT", "while the image is staged", "while the old group stops", "between the starts of two ranks")
DROPS_IN_CI = ("while the old group stops",)


def network(pair: Pair, number: int) -> Namespace:
    found = pair.nodes.engines[number].network
    assert found is not None
    return found


def played(request: pytest.FixtureRequest, *, ci: bool) -> None:
    if not ci and not request.config.getoption("--every-fault"):
        pytest.skip("with --every-fault")


def note(request: pytest.FixtureRequest, fault: str, happened: str, seconds: float, *, answers: bool = False) -> None:
    """A row of the table of `make faults`; `answers`: the seconds are those until the group answered."""
    row = Row(fault, happened, seconds, "the group answered" if answers else "the operator was told")
    request.node.user_properties.append(("fault", json.dumps(asdict(row))))


def told(result: Result) -> list[str]:
    """The errors of a command, each from its first line on."""
    assert "Traceback" not in result.err, result.err
    return [line.removeprefix("hallmark: ") for line in result.err.splitlines() if line.startswith("hallmark: ")]


def groups(pair: Pair) -> list[set[int]]:
    """By node, the revisions whose ranks run there."""
    return [{int(mark.rpartition("/r")[2]) for mark in marks} for marks in pair.running()]


def words(command: str, image: str) -> tuple[str, ...]:
    return (command, "pair", "--image", image) if command == "launch" else (command, "pair")


def is_whole(pair: Pair, image: str | None) -> None:
    """The group of that image runs on both nodes and answers, or nothing runs; no lock is left."""
    found = pair.world.run("status", "pair", "--json").document
    if image is None:
        assert (found["state"], groups(pair)) == ("stopped", [set(), set()])
    else:
        assert (found["state"], found["missing"], groups(pair)) == ("running", None, [{found["revision"]}] * 2)
        assert pair.serves(image)
    for engine in pair.nodes.engines:
        assert list((engine.folder / "home").rglob("lock")) == []


@pytest.mark.parametrize("name", CASES)
def test_a_node_that_vanishes_is_told_of_and_the_next_command_ends_in_a_whole_group(
    request: pytest.FixtureRequest, cut: Pair, name: str
) -> None:
    case = CASES[name]
    played(request, ci=case.get("ci", False))
    old, new = cut.ready()
    before = cut.world.done("status", "pair")["revision"]
    lost = network(cut, NODES.index(case["loses"]))
    hook = None
    if case["at"] == "before the command":
        lost.vanish()
    else:
        hook = POINTS[case["at"]](lost.vanish)
    if case["at"] == ON_ITS_WAY:
        cut.lacks(new)
    began = time.monotonic()
    # A process of its own: the lock that it leaves on the lost node gives way to the next one only because it is gone.
    result = cut.world.begin(*words(case["command"], new), before=hook).wait(BOUND)
    seconds = time.monotonic() - began
    errors = told(result)
    assert (result.exit, case["says"] in result.err) == (case["exit"], True), result.err
    assert len(errors) == (0 if result.exit == 0 else 1), result.err
    # On the lost node ranks run on or end by themselves, which is in nobody's hands.
    there = groups(cut)[1 - NODES.index(case["loses"])]
    assert ({"old" if it == before else "new" for it in there} or {"none"}) == {case["runs"]}, result.err

    seen = cut.world.begin("status", "pair", "--json").wait(BOUND)
    if case["loses"] == "left":
        # Its journal says what should run.
        assert (seen.exit, "node left" in seen.err) == (5, True), seen.err
    elif case["command"] == "stop" and result.exit == 0:
        assert seen.document["state"] == "stopped"
    else:
        assert (seen.exit, "rank 1 (right) is not reached" in seen.document["missing"]) == (2, True), seen.out

    cut.back()
    after = cut.world.begin(*words(case["then"], new)).wait(BOUND)
    assert after.exit == 0, after.err
    if case["then"] == "stop":
        is_whole(cut, None)
    elif case["then"] == "launch":
        is_whole(cut, new)
    else:
        # To the last certified revision that does not run.
        is_whole(cut, old if cut.serves(old) else new)
    happened = f"exit {result.exit}: {errors[0][:160]}…" if errors else "exit 0: it was done without that node"
    fault = f"`{case['command']}`: the {'head' if case['loses'] == 'left' else 'worker'} vanishes {case['at']}"
    note(request, fault, f"{happened}; once it was back, `{case['then']}` was done", seconds)


@pytest.mark.parametrize("point", DROPS)
@pytest.mark.parametrize("command", ["launch", "rollback"])
def test_connections_that_drop_are_made_again_and_the_command_is_done(
    request: pytest.FixtureRequest, cut: Pair, command: str, point: str
) -> None:
    played(request, ci=command == "launch" and point in DROPS_IN_CI)
    _, new = cut.ready()

    def drop() -> None:
        assert all(node.lose() for node in cut.nodes.nodes)

    began = time.monotonic()
    result = cut.world.begin(*words(command, new), before=POINTS[point](drop)).wait(BOUND)
    assert (result.exit, told(result)) == (0, []), result.err
    is_whole(cut, new)
    seconds = time.monotonic() - began
    note(
        request,
        f"`{command}`: all SSH connections drop {point}",
        "they are made again, and the command is done",
        seconds,
    )


def test_a_rank_that_is_cut_off_while_it_starts_is_told_of_by_the_launch_and_by_the_status(
    request: pytest.FixtureRequest, linked: Pair
) -> None:
    """With the limits that people have: within 10 s, which `make faults` writes down."""
    linked.ready()
    command = linked.world.begin("launch", "pair", "--image", HANGING)
    command.says("start revision")
    until(lambda: all(linked.running()))
    network(linked, 1).vanish()
    began = time.monotonic()
    command.says("rank 1 (right) was cut off while it started")
    seconds = time.monotonic() - began
    result = command.wait(BOUND)
    assert (result.exit, len(told(result))) == (3, 1), result.err
    assert "left: no rank runs; right: is not reached" in result.err
    found = linked.world.run("status", "pair", "--json").document
    assert (found["state"], "rank 1 (right) is not reached" in found["missing"]) == ("unfinished", True)
    happened = f"`launch` tells: {told(result)[0][:110]}…; exit 3, and `status` tells it too"
    note(request, "a rank is cut off while it starts, with the usual limits", happened, seconds)


def test_a_cable_that_is_pulled_while_the_group_serves_is_seen_by_its_heartbeat(
    cut: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E1: both nodes are reached, both ranks run, and /health says 200."""
    monkeypatch.setattr("launch.proof.heartbeat.beat.__kwdefaults__", {"deadline": 1.0, "api_key": None})
    monkeypatch.setattr("launch.proof.heartbeat._METRICS_SECONDS", 0.5)
    cut.ready()
    network(cut, 1).unplug()
    found = cut.world.run("status", "pair", "--json").document
    assert (found["state"], [rank["alive"] for rank in found["ranks"]]) == ("degraded", [True, True])
    assert "no token comes back" in found["missing"]


def test_a_container_that_is_paused_is_named_and_can_be_stopped(cut: Pair) -> None:
    cut.ready()
    second = cut.nodes.engines[1]
    [name] = second.docker("ps", "--quiet").stdout.split()
    second.docker("pause", name)
    found = cut.world.run("status", "pair", "--json").document
    assert found["missing"] == "rank 1 (right) hangs: its container is paused"
    cut.world.done("stop", "pair")
    for engine in cut.nodes.engines:
        assert engine.docker("ps", "--all", "--quiet").stdout == ""
        # The shared memory of a container is a mount below its engine's folder.
        assert f"{engine.folder}/data/containers" not in Path("/proc/self/mounts").read_text()
