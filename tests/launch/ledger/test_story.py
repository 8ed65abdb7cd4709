"""The main story: a good group, a bad successor, a good one, and back again."""

from tests.standin.world import World


def test_a_bad_patch_set_is_refused_and_certified_revisions_are_rolled_back_to(world: World) -> None:
    world.done("key", "new", "ops")
    launched = world.done("launch", "pair", "-m", "first")
    assert (launched["revision"], launched["changed"], launched["outage_seconds"]) == (1, True, None)
    assert [gate["verdict"] for gate in launched["gates"]] == ["pass", "pass"]
    assert world.done("status", "pair")["state"] == "running"
    certified = world.done("certify", "pair")
    assert {gate["verdict"] for gate in certified["gates"].values()} == {"pass"}
    assert world.done("certificate", "verify", certified["certificate"])["valid"]

    bad = world.run("launch", "pair", "--profile", "b", "-m", "second")
    assert bad.exit == 2
    assert "gate acceptance: fail" in bad.err
    assert "revision 1 is back and answers" in bad.err
    assert world.running() == [1]
    assert world.answers()

    world.done("launch", "pair", "--profile", "c")
    assert world.greeting() == "patched"
    other = world.done("certify", "pair")["digest"]

    back = world.done("rollback", "pair", "-m", "c is slow")
    assert (back["revision"], world.greeting()) == (4, "plain")
    assert world.answers()
    forth = world.done("rollback", "pair")
    assert (forth["revision"], world.greeting()) == (5, "patched")

    history = world.done("history", "pair")["revisions"]
    assert [(one["state"], one["certified"], one["restores"]) for one in history] == [
        ("committed", True, None),
        ("restored", False, None),
        ("committed", True, None),
        ("committed", True, 1),
        ("committed", True, 3),
    ]
    assert [one["why"] for one in history] == ["first", "second", None, "c is slow", None]
    assert [one["digest"] for one in history][3:] == [certified["digest"].removeprefix("sha256:"), other[7:]]


def test_launching_what_runs_changes_nothing(world: World) -> None:
    world.done("launch", "pair")
    before = {process.pid for process in world.processes()}
    again = world.run("launch", "pair")
    assert again.exit == 0
    assert "nothing to do: revision 1 runs exactly this and answers" in again.err
    assert {process.pid for process in world.processes()} == before
    assert len(world.done("history", "pair")["revisions"]) == 1


def test_stop_stops_all_ranks_and_may_be_repeated(world: World) -> None:
    world.done("launch", "pair")
    assert world.done("stop", "pair") == {"cluster": "pair", "stopped": [1]}
    assert world.processes() == []
    assert "nothing to do" in world.run("stop", "pair").out
    stopped = world.run("status", "pair", "--json")
    assert (stopped.exit, stopped.document["state"]) == (2, "stopped")
    assert world.done("launch", "pair")["revision"] == 2


def test_a_lost_plan_of_an_earlier_revision_does_not_keep_what_runs_from_being_stopped(world: World) -> None:
    world.brief_trials()
    world.done("launch", "pair")
    world.done("launch", "pair", "--profile", "c")
    (world.store().folder / "plans" / "r1.json").unlink()
    stopped = world.run("stop", "pair")
    assert (stopped.exit, world.processes()) == (0, []), stopped.err
    assert "warning: what revision 1 left is not looked for" in stopped.err
    assert "put it back in the records on the head" in stopped.err


def test_a_cluster_without_a_history_is_stopped_and_asking_for_it_writes_nothing(world: World) -> None:
    assert world.run("status", "pair").exit == 2
    assert world.run("stop", "pair").exit == 0
    assert "no history yet" in world.run("history", "pair").out
    logs = world.run("logs", "pair")
    assert (logs.exit, "no history" in logs.err) == (1, True)
    assert not (world.node / "clusters" / "pair" / "id").exists()


def test_a_first_launch_that_fails_leaves_nothing(world: World) -> None:
    bad = world.run("launch", "pair", "--profile", "b")
    assert bad.exit == 2
    assert "nothing runs, as before" in bad.err
    assert world.processes() == []
    assert world.run("status", "pair").exit == 2


def test_a_revision_with_other_arguments_is_not_certified_by_the_same_patches(world: World) -> None:
    world.done("key", "new", "ops")
    world.done("launch", "pair")
    world.done("certify", "pair")
    serve = {"served-model-name": "tiny", "host": "127.0.0.1", "tensor-parallel-size": 2, "max-model-len": 64}
    world.profile("a", serve=serve)
    world.done("launch", "pair")
    history = world.done("history", "pair")["revisions"]
    assert history[0]["digest"] == history[1]["digest"]
    assert [one["certified"] for one in history] == [True, False]
    assert world.done("rollback", "pair")["revision"] == 3
    assert world.done("history", "pair")["revisions"][2]["restores"] == 1


def test_a_rollback_needs_no_profile_file(world: World) -> None:
    world.done("key", "new", "ops")
    world.done("launch", "pair")
    world.done("certify", "pair")
    world.done("launch", "pair", "--profile", "c")
    (world.home / "configs" / "profiles" / "a.yaml").write_text("summary: [broken")
    world.done("rollback", "pair")
    assert world.greeting() == "plain"
    # And what it brought back is certified for what it is, not for what the cluster file says now.
    world.done("certify", "pair")
    assert world.done("rollback", "pair", "--to", "1")["changed"] is False
