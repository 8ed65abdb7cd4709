"""Two operators at once, and a second cluster on the same machine, with the StandIn."""

from tests.standin.world import World, free_ports


def test_of_two_launches_at_the_same_time_one_is_done_and_the_other_is_told_of_it(world: World) -> None:
    world.brief_trials()
    commands = [world.begin("launch", "pair", "--profile", profile) for profile in ("a", "c")]
    results = [command.wait() for command in commands]
    assert sorted(result.exit for result in results) == [0, 6], [result.err for result in results]
    busy = next(result for result in results if result.exit == 6)
    assert "the cluster is being changed by " in busy.err
    assert world.running() == [1]
    assert world.answers()


def test_a_second_cluster_on_the_same_machine_lives_and_ends_by_itself(world: World) -> None:
    world.brief_trials()
    api, master = free_ports(2)
    world.cluster("other", ports={"api": api, "master": master})
    world.done("launch", "pair")
    world.done("launch", "other")
    first = {process.pid for process in world.processes()}
    world.done("stop", "other")
    assert world.processes("other") == []
    assert {process.pid for process in world.processes()} == first
    assert world.done("status", "pair")["state"] == "running"


def test_a_second_cluster_on_the_ports_of_the_first_is_refused_and_changes_nothing(world: World) -> None:
    world.brief_trials()
    world.cluster("other")
    world.done("launch", "pair")
    result = world.run("launch", "other")
    assert (result.exit, f"port {world.api} is taken by process" in result.err) == (2, True), result.err
    assert world.processes("other") == []
    assert world.done("status", "pair")["state"] == "running"
