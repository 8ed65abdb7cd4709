"""`hallmark preflight` on this machine; recorded nodes are in tests/launch/nodes/preflight, engines beside them."""

import socket

from recipe.errors import Exit
from tests.standin.world import World


def test_a_cluster_that_can_be_launched_passes_and_nothing_is_changed(world: World) -> None:
    result = world.run("preflight", "pair", "--json")
    assert result.exit == Exit.OK, result.err
    document = result.document
    assert (document["cluster"], document["profile"]) == ("pair", "a")
    assert "FAIL" not in {it["verdict"] for it in document["checks"]}
    assert {it["check"] for it in document["checks"]} >= {"architecture", "model", "ports", "memory", "shm", "clock"}
    assert not world.node.exists()


def test_what_passed_is_shown_on_demand_only(world: World) -> None:
    brief, everything = world.run("preflight", "pair").out, world.run("preflight", "pair", "--all").out
    assert "config.json" not in brief and brief.splitlines()[-1].startswith("pair: ")
    assert "PASS  memory" in everything and "PASS  ports" in everything


def test_what_fails_is_a_table_with_the_remedies_under_it(world: World) -> None:
    (world.models / "tiny" / "config.json").unlink()
    with socket.socket() as server:
        server.bind(("127.0.0.1", world.api))
        server.listen()
        result = world.run("preflight", "pair")
    assert result.exit == Exit.NOT_DONE
    lines = result.out.splitlines()
    head = next(line for line in lines if "CHECK" in line)
    assert head.split() == ["CHECK", "NODE", "FOUND"]
    assert any(line.startswith("FAIL  model  left") and "config.json" in line for line in lines)
    assert any(
        line.startswith("FAIL  ports  left") and f"port {world.api} is taken by process" in line for line in lines
    )
    after = lines[lines.index("What to do:") :]
    assert "  ports on left: end that process or choose another port" in after
    assert lines[-1].startswith("pair: ") and "2 FAIL" in lines[-1]


def test_the_group_that_runs_is_no_reason_against_a_launch(world: World) -> None:
    """D5: its ports and its memory will be free."""
    world.done("launch", "pair")
    checks = world.done("preflight", "pair", "--profile", "c")["checks"]
    assert [it["message"] for it in checks if it["check"] == "ports"] == [
        f"{world.api} and {world.master} are the group's"
    ]


def test_a_secret_that_is_not_there_is_told_before_a_launch(world: World) -> None:
    world.profile("a", env={"SOME_TOKEN": "env:NOT_SET_ANYWHERE"})
    result = world.run("preflight", "pair")
    assert (result.exit, "export NOT_SET_ANYWHERE in this shell" in result.out) == (Exit.NOT_DONE, True)


def test_a_cluster_of_one_machine_has_no_bandwidth_to_measure(world: World) -> None:
    checks = world.done("preflight", "pair", "--bandwidth")["checks"]
    assert "bandwidth" not in {it["check"] for it in checks}


def test_nodes_are_looked_at_although_what_they_would_run_is_not_here_yet(world: World) -> None:
    world.cluster(paths={"state": str(world.node), "models": str(world.models), "venv": str(world.home / "none")})
    result = world.run("preflight", "pair", "--json")
    assert result.exit == Exit.NOT_DONE, result.err
    found = {(it["check"], it["verdict"]) for it in result.document["checks"]}
    assert ("program", "FAIL") in found and ("model", "PASS") in found
    assert any("there is no virtual environment" in it["message"] for it in result.document["checks"])
