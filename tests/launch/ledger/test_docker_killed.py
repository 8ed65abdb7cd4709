"""The StandIn in containers on two engines: commands that are killed, images that fail, ranks that die."""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from launch.engines.containers import DockerEngine
from launch.group import transition
from launch.group.journal import Event
from launch.nodes import ssh
from launch.nodes.image import StagedImage
from scripts.bases import archive
from scripts.engines.group import Group
from tests.conftest import possible
from tests.standin.hooks import Point, at_call, at_event
from tests.standin.image import standin
from tests.standin.world import World

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
PLAIN, PATCHED, COLLAPSED = (f"localhost/standin-{name}:1" for name in ("plain", "greets", "collapses"))


@dataclass(frozen=True)
class Pair:
    """The world's cluster on two real nodes."""

    world: World
    nodes: Group

    def running(self) -> list[set[str]]:
        """By node, the marks of the containers that run."""
        words = ("ps", "--format", '{{.Label "dev.hallmark.group"}}')
        return [set(engine.docker(*words).stdout.split()) for engine in self.nodes.engines]

    def serves(self, reference: str) -> bool:
        """Whether every node runs this image, and the group answers."""
        wanted = self.nodes.engines[0].docker("image", "inspect", "--format", "{{.Id}}", reference).stdout
        for engine in self.nodes.engines:
            found = json.loads(engine.docker("inspect", *engine.docker("ps", "--quiet").stdout.split()).stdout)
            if [one["Image"] for one in found] != [wanted.strip()]:
                return False
        return self.world.answers()


@pytest.fixture(scope="module")
def images(nodes: Group) -> list[archive.Base]:
    """Made before a world has a cache of its own."""
    with possible():
        return [standin(), standin("greets"), standin("collapses")]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests here, so that only the first one pushes the Debian."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def pair(
    images: list[archive.Base], cache: Path, world: World, nodes: Group, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pair]:
    for base in images:
        archive.load(base, nodes.engines[0].client, nodes.engines[0].host)
    monkeypatch.setenv("HALLMARK_CACHE", str(cache))
    monkeypatch.setenv("DOCKER_HOST", nodes.engines[0].host)
    monkeypatch.setenv("HALLMARK_SSH_CONFIG", str(nodes.config))
    listed = [
        {"name": name, "address": f"ssh://{node.address}:{node.port}", "fabric": node.address}
        for name, node in zip(("left", "right"), nodes.nodes, strict=True)
    ]
    world.cluster(engine="docker", nodes=listed, paths={"state": str(world.node), "models": str(world.models)})
    world.profile("a", gates={"trial": ["answers", "acceptance"], "certify": ["answers", "acceptance"]})
    ssh._sockets.cache_clear()
    yield Pair(world, nodes)
    for engine in nodes.engines:
        left = engine.docker("ps", "--all", "--quiet", "--filter", "label=dev.hallmark.cluster=pair").stdout.split()
        if left:
            engine.docker("rm", "--force", *left)


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_launch_ends_in_the_new_group_with_the_next_command(pair: Pair, point: str) -> None:
    pair.world.done("launch", "pair", "--image", PLAIN)
    begun = pair.world.begin("launch", "pair", "--image", PATCHED, before=POINTS[point](signal.SIGKILL))
    assert begun.wait().exit == KILLED
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
