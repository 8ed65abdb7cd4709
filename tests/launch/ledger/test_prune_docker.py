"""What is removed from two real engines, and what is told when somebody else removed too much."""

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from launch.nodes.lock import locked
from recipe.config import paths
from recipe.errors import Exit
from scripts.engines.engine import Engine
from tests.standin.pair import PLAIN, Pair

pytestmark = pytest.mark.docker
NAMES = ("launched-and-certified", "launched", "never-launched", "of-somebody")


@pytest.fixture
def built(pair: Pair) -> Iterator[dict[str, str]]:
    """By name the digests of four images that say of themselves that this project built them, on the first engine."""
    engine = pair.nodes.engines[0]
    found = {}
    for number, name in enumerate(NAMES):
        labels = {"profile": name, "vllm": "0.33.0", "patchset": f"{number}" * 64}
        lines = [f"FROM {PLAIN}", *(f"LABEL dev.hallmark.{key}={value}" for key, value in labels.items())]
        words = [engine.client, "--host", engine.host, "build", "--quiet", "--tag", tag(name), "-"]
        done = subprocess.run(words, check=True, input="\n".join(lines), capture_output=True, text=True)
        found[name] = done.stdout.strip()
    engine.docker("tag", tag("of-somebody"), "production:1")
    yield found
    pair.clear()
    for it in pair.nodes.engines:
        it.docker("image", "rm", "--force", "production:1", *found.values(), check=False)


def tag(name: str) -> str:
    return f"hallmark:{name}-0.33.0-{str(NAMES.index(name)) * 8}"


def by_digest(document: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(document["removed"], key=lambda it: (it["node"], it["config_digest"]))


def has(engine: Engine, built: dict[str, str]) -> set[str]:
    there = engine.docker("image", "ls", "--no-trunc", "--quiet").stdout.split()
    return {name for name, digest in built.items() if digest in there}


def test_b7_only_what_nothing_refers_to_is_removed_and_a_rollback_target_that_somebody_removed_is_told(
    pair: Pair, built: dict[str, str]
) -> None:
    """One story, because each start takes seconds."""
    world, (left, right) = pair.world, pair.nodes.engines
    world.done("key", "new", "ops")
    world.done("launch", "pair", "--image", tag("launched-and-certified"))
    world.done("certify", "pair")
    world.done("launch", "pair", "--image", tag("launched"))
    # Without containers only the records refer to anything; without a tag `docker image prune` would take it.
    pair.clear()
    right.docker("image", "prune", "--force")
    assert has(right, built) == {"launched-and-certified", "launched"}

    rehearsed = world.done("images", "prune", "pair", "--dry-run")
    # Other tests may have left images of theirs on these engines.
    mine = [it["names"] for it in rehearsed["removed"] if it["config_digest"] in built.values()]
    assert mine == [[tag("never-launched")]]
    with locked(world.store().lock, "launch a"):
        busy = world.run("images", "prune", "pair")
    assert (busy.exit, "launch a" in busy.err) == (Exit.BUSY, True), busy.err
    assert has(left, built) == set(NAMES)

    # A node, the head or this machine whose disk is not mounted: the records look as if there had never been any.
    for node, at in ((world.node, "has no record of any cluster"), (world.state, "is not there or empty")):
        aside = node.with_name("not-mounted")
        node.rename(aside)
        node.mkdir()
        unknown = world.run("images", "prune", "pair")
        assert (unknown.exit, at in unknown.err or "journal" in unknown.err) == (Exit.MISMATCH, True), unknown.err
        assert has(left, built) == set(NAMES)
        shutil.rmtree(node)
        aside.rename(node)

    # A controller that has never seen this cluster knows the same, once it is told that it has seen none.
    pair.elsewhere()
    unknown = world.run("images", "prune", "pair")
    assert (unknown.exit, "mkdir -p" in unknown.err) == (Exit.MISMATCH, True), unknown.err
    (paths.state() / "clusters").mkdir()
    pruned = world.done("images", "prune", "pair")
    # Docker lists images that were made in the same second in any order.
    assert (by_digest(pruned), pruned["dry_run"]) == (by_digest(rehearsed), False)
    kept = {(it["node"], it["config_digest"]): it["reasons"] for it in pruned["kept"]}
    assert kept["right", built["launched-and-certified"]] == ["certificate of pair", "history of pair"]
    assert kept["right", built["launched"]] == ["history of pair"]
    assert kept["this machine", built["of-somebody"]] == ["the name production:1"]
    assert has(left, built) == set(NAMES) - {"never-launched"}
    assert has(right, built) == {"launched-and-certified", "launched"}
    again = world.run("images", "prune", "pair")
    assert (again.exit, "nothing to do" in again.out) == (0, True)

    right.docker("image", "rm", "--force", built["launched-and-certified"])
    told = world.run("launch", "pair", "--image", tag("launched")).err
    gone = f"somebody removed {tag('launched-and-certified')} ({built['launched-and-certified']})"
    assert f"warning: {gone}, of certified revision 1, from right: a rollback brings it back" in told

    before = pair.running()
    left.docker("image", "rm", "--force", built["launched-and-certified"])
    refused = world.run("rollback", "pair", "--to", "1")
    assert (refused.exit, "is neither here nor on left, right" in refused.err) == (Exit.NOT_DONE, True), refused.err
    assert pair.running() == before and world.answers()


def test_an_engine_that_docker_does_not_reach_is_an_error_before_anything_is_removed(
    pair: Pair, built: dict[str, str]
) -> None:
    left, right = pair.listed()
    (paths.state() / "clusters").mkdir(parents=True)
    broken = right | {"docker-host": "unix:///nowhere/docker.sock"}
    pair.world.cluster(engine="docker", nodes=[left, broken], paths=pair.paths)
    result = pair.world.run("images", "prune", "pair")
    assert (result.exit, "node right: no engine answers" in result.err) == (Exit.UNREACHABLE, True), result.err
    assert has(pair.nodes.engines[0], built) == set(NAMES)


def test_a_cluster_of_processes_has_no_images(pair: Pair) -> None:
    pair.world.cluster("processes")
    result = pair.world.run("images", "prune", "processes")
    assert (result.exit, "the process engine has no images" in result.err) == (Exit.USAGE, True), result.err
