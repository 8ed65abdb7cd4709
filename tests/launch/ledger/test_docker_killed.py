"""The StandIn in containers on two engines: commands that are killed, images that fail, ranks that die."""

import signal

import pytest

from launch.engines.containers import DockerEngine
from launch.group import transition
from launch.group.journal import Event
from launch.nodes.image import StagedImage
from launch.plan.group import RankPlan
from tests.standin.hooks import Point, at_call, at_event
from tests.standin.pair import COLLAPSED, PATCHED, PLAIN, Pair

pytestmark = pytest.mark.docker
KILLED = 128 + signal.SIGKILL
POINTS: dict[str, Point] = {
    "after INTENT": at_event(Event.INTENT, written=True),
    "while the image is staged": at_call(StagedImage, "stage", 1),
    "after STAGED": at_event(Event.STAGED, written=True),
    "before STOPPED": at_event(Event.STOPPED, written=False),
    "after STOPPED": at_event(Event.STOPPED, written=True),
    "between the starts of two ranks": at_call(DockerEngine, "_start", 1, after=True),
    "while the new group gets ready": at_call(transition, "wait_until_ready", 1),
    "after STARTED": at_event(Event.STARTED, written=True),
    "before COMMITTED": at_event(Event.COMMITTED, written=False),
    "after COMMITTED": at_event(Event.COMMITTED, written=True),
}
# After these the next command is that of a controller that has never seen the cluster.
ELSEWHERE = {"after INTENT", "before STOPPED", "while the new group gets ready", "before COMMITTED"}


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_launch_ends_in_the_new_group_with_the_next_command(pair: Pair, point: str) -> None:
    pair.world.done("launch", "pair", "--image", PLAIN)
    begun = pair.world.begin("launch", "pair", "--image", PATCHED, before=POINTS[point](signal.SIGKILL))
    assert begun.wait().exit == KILLED
    if point in ELSEWHERE:
        pair.elsewhere()
        assert pair.world.run("status", "pair", "--json").document["state"] == "unfinished"
    pair.world.done("launch", "pair", "--image", PATCHED)
    assert pair.serves(PATCHED)
    assert pair.world.done("status", "pair")["state"] == "running"


@pytest.mark.parametrize("point", ["before STOPPED", "between the starts of two ranks", "before COMMITTED"])
def test_a_stop_after_a_killed_launch_leaves_nothing_running(pair: Pair, point: str) -> None:
    pair.world.done("launch", "pair", "--image", PLAIN)
    pair.world.begin("launch", "pair", "--image", PATCHED, before=POINTS[point](signal.SIGKILL)).wait()
    pair.world.done("stop", "pair")
    assert pair.running() == [set(), set()]


def test_an_image_that_fails_its_trial_gives_way_to_the_containers_that_ran_before(pair: Pair) -> None:
    pair.world.done("launch", "pair", "--image", PLAIN)
    before = pair.running()
    result = pair.world.run("launch", "pair", "--image", COLLAPSED)
    assert (result.exit, "revision 1 is back and answers" in result.err) == (2, True), result.err
    assert pair.running() == before
    assert pair.serves(PLAIN)


def test_a_rank_that_ends_is_named_and_a_new_launch_replaces_the_group(pair: Pair) -> None:
    pair.world.done("launch", "pair", "--image", PLAIN)
    second = pair.nodes.engines[1]
    second.docker("kill", *second.docker("ps", "--quiet").stdout.split())
    found = pair.world.run("status", "pair", "--json")
    assert (found.exit, found.document["state"]) == (2, "degraded")
    assert [rank["alive"] for rank in found.document["ranks"]] == [True, False]
    assert pair.world.done("launch", "pair", "--image", PLAIN)["revision"] == 2
    assert pair.serves(PLAIN)


def test_an_image_is_restored_by_digest_although_its_name_is_gone(pair: Pair) -> None:
    pair.world.done("key", "new", "ops")
    pair.world.done("launch", "pair", "--image", PLAIN)
    pair.world.done("certify", "pair")
    pair.world.done("launch", "pair", "--image", PATCHED)
    assert pair.world.run("rollback", "pair", "--to", "2").exit == 2
    first = pair.nodes.engines[0]
    first.docker("tag", PATCHED, PLAIN)
    result = pair.world.run("rollback", "pair")
    assert (result.exit, f"note: {PLAIN} is another image now" in result.err) == (0, True), result.err
    assert not pair.serves(PLAIN)
    assert pair.world.done("history", "pair")["revisions"][-1]["restores"] == 1


def test_two_controllers_see_one_history_and_each_goes_on_where_the_other_ended(pair: Pair) -> None:
    pair.world.done("key", "new", "ops")
    pair.world.done("launch", "pair", "--image", PLAIN)
    pair.elsewhere()
    assert pair.world.done("status", "pair")["state"] == "running"
    assert pair.world.done("launch", "pair", "--image", PLAIN)["changed"] is False
    pair.world.done("certify", "pair")
    pair.world.patches.setenv("HALLMARK_STATE", str(pair.world.state))
    assert len(pair.world.done("certificate", "list", "pair")["certificates"]) == 1
    pair.world.done("launch", "pair", "--image", PATCHED)
    pair.elsewhere("third")
    assert pair.world.done("rollback", "pair")["revision"] == 3
    assert pair.serves(PLAIN)
    found = pair.world.done("history", "pair")["revisions"]
    assert [(one["number"], one["certified"], one["restores"]) for one in found] == [
        (1, True, None),
        (2, False, None),
        (3, True, 1),
    ]
    [copy] = (pair.world.node / "copies").iterdir()
    for name in ("journal.jsonl", "id", "plans/r3.json"):
        assert (copy / name).read_bytes() == (pair.world.node / "clusters/pair" / name).read_bytes()
    pair.world.done("stop", "pair")
    assert pair.running() == [set(), set()]


def test_what_runs_on_a_node_that_left_the_cluster_file_is_stopped(pair: Pair) -> None:
    pair.world.done("launch", "pair", "--image", PLAIN)
    [*kept, _] = pair.listed()
    pair.world.cluster(engine="docker", nodes=kept, paths=pair.paths)
    pair.world.done("stop", "pair")
    assert pair.running() == [set(), set()]


def test_a_connection_that_is_lost_while_ranks_start_does_not_end_the_launch(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, lost = DockerEngine._start, []

    def start(self: DockerEngine, rank: RankPlan, group: str) -> None:
        real(self, rank, group)
        lost.append(pair.nodes.nodes[1 - rank.rank].lose())

    monkeypatch.setattr(DockerEngine, "_start", start)
    pair.world.done("launch", "pair", "--image", PLAIN)
    assert all(lost)
    assert pair.serves(PLAIN)
