"""Gates that look at the group itself, and those that are about something it does not have."""

from typing import Any

from tests.standin.world import World

GATES: dict[str, dict[str, Any]] = {
    "parsed": {
        "kind": "tool-call",
        "summary": "s",
        "needs": ["tool-call-parser"],
        "prompt": "a",
        "tool": "t",
        "argument": "a",
        "contains": "a",
    },
    "ranks": {"kind": "ranks", "summary": "s", "same": ["startup complete"]},
    "memory": {"kind": "memory", "summary": "s", "min-free": 0.001, "min-gpu-free": 0.0},
}


def test_a_gate_about_a_parser_that_the_group_runs_without_is_told_and_not_asked_for(world: World) -> None:
    for name, gate in GATES.items():
        world.write(f"gates/{name}.yaml", gate)
    world.profile("a", gates={"trial": ["parsed", "answers"], "certify": ["answers", "parsed", "memory"]})
    world.done("key", "new", "ops")
    launched = world.done("launch", "pair")
    assert [gate["name"] for gate in launched["gates"]] == ["answers"]
    certified = world.run("certify", "pair", "--json")
    assert "parsed: not applicable, the group runs without --tool-call-parser" in certified.err
    assert list(certified.document["gates"]) == ["answers", "memory"]
    assert world.done("certificate", "verify", certified.document["certificate"])["valid"]


def test_logs_of_ranks_that_tell_different_things_are_a_finding(world: World) -> None:
    world.write("gates/ranks.yaml", GATES["ranks"])
    world.profile("a", gates={"trial": ["answers"], "certify": ["ranks"]})
    world.done("key", "new", "ops")
    world.done("launch", "pair")
    refused = world.run("certify", "pair")
    # Only the head of the StandIn writes that line.
    assert refused.exit == 2
    assert "the logs differ in 'startup complete': left: startup complete; right: nothing" in refused.err
