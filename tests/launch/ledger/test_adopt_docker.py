"""The StandIn in containers that somebody started by hand: adopted, certified in a registry, replaced, brought back."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from launch.ledger.launch import want
from launch.ledger.standing import standing
from launch.ledger.work import work
from launch.nodes import ssh
from launch.nodes.image import staged
from launch.plan.place import Place
from recipe.image.reference import repository
from recipe.image.registry import Repository
from scripts.bases import archive
from scripts.engines import registry
from scripts.engines.group import Group
from tests.conftest import possible
from tests.standin.image import standin
from tests.standin.world import World, free_ports, until

pytestmark = pytest.mark.docker
PLAIN, PATCHED, COLLAPSED = (f"localhost/standin-{name}:1" for name in ("plain", "greets", "collapses"))
SECRET = "hf_hidden"


@dataclass(frozen=True)
class ByHand:
    """The world's cluster on two real nodes with a registry, and ways to work on the nodes as a person does."""

    world: World
    nodes: Group
    repository: str
    settings: dict[str, Any]

    def start(self, rank: int, *more: str, image: str = PLAIN, name: str = "by-hand") -> str:
        """Run a rank as a person would; gives the container's id."""
        node, world = self.nodes.nodes[rank], self.world
        words = ["run", "--detach", "--name", f"{name}-{rank}", "--network", "host", "--shm-size", "1g"]
        words += ["--env", f"HF_TOKEN={SECRET}", "--env", f"VLLM_HOST_IP={node.address}"]
        words += ["--volume", f"{world.models}:/models:ro", "--cpus", "1.5", image]
        words += ["vllm", "serve", "/models/tiny", "--served-model-name", "tiny", "--host", "127.0.0.1"]
        words += ["--port", str(world.api), "--tensor-parallel-size", "2", "--max-model-len=512", "--nnodes", "2"]
        words += ["--node-rank", str(rank), "--master-addr", "127.0.0.1", "--master-port", str(world.master)]
        words += [*(["--headless"] if rank else []), *more]
        return self.nodes.engines[rank].docker(*words).stdout.strip()

    def group(self) -> list[str]:
        ids = [self.start(0), self.start(1)]
        until(self.world.answers)
        return ids

    def inspect(self, rank: int, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.nodes.engines[rank].docker("inspect", name).stdout)[0]
        return found

    def running(self) -> list[list[str]]:
        """By node, the ids of the containers that run."""
        return [engine.docker("ps", "--quiet", "--no-trunc").stdout.split() for engine in self.nodes.engines]

    def id(self, image: str) -> str:
        return self.nodes.engines[0].docker("image", "inspect", "--format", "{{.Id}}", image).stdout.strip()


@pytest.fixture(scope="module")
def images() -> list[archive.Base]:
    """Made before a world has a cache of its own."""
    with possible():
        return [standin(), standin("greets"), standin("collapses"), standin("warns")]


@pytest.fixture(scope="module")
def store(nodes: Group, tmp_path_factory: pytest.TempPathFactory) -> Iterator[registry.Registry]:
    [port] = free_ports(1)
    with possible():
        started = registry.start(tmp_path_factory.mktemp("registry"), port)
    yield started
    started.end()


@pytest.fixture
def hand(
    images: list[archive.Base],
    store: registry.Registry,
    world: World,
    nodes: Group,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[ByHand]:
    for base in images[:3]:
        archive.load(base, nodes.engines[0].client, nodes.engines[0].host)
    archive.load(images[0], nodes.engines[1].client, nodes.engines[1].host)
    monkeypatch.setenv("DOCKER_HOST", nodes.engines[0].host)
    monkeypatch.setenv("HALLMARK_SSH_CONFIG", str(nodes.config))
    monkeypatch.setenv("HF_TOKEN", SECRET)
    listed = [
        {"name": name, "address": f"ssh://{node.address}:{node.port}", "fabric": node.address}
        for name, node in zip(("left", "right"), nodes.nodes, strict=True)
    ]
    where = f"{store.address}/team/{tmp_path.name.replace('_', '-')}".lower()
    paths = {"state": str(world.node), "models": str(world.models)}
    settings: dict[str, Any] = {"engine": "docker", "nodes": listed, "paths": paths, "registry": where}
    world.cluster(**settings)
    world.profile("a", gates={"trial": ["answers", "acceptance"], "certify": ["answers", "acceptance", "patchset"]})
    ssh._sockets.cache_clear()
    yield ByHand(world, nodes, where, settings)
    for engine in nodes.engines:
        if left := engine.docker("ps", "--all", "--quiet").stdout.split():
            engine.docker("rm", "--force", *left)


def test_a_group_that_was_started_by_hand_is_adopted_certified_replaced_and_brought_back(hand: ByHand) -> None:
    """One story, because each start takes seconds."""
    world = hand.world
    nothing = world.run("adopt", "pair")
    assert nothing.exit == 2
    assert "node left: no container runs `vllm serve`; others: none — start it, or launch" in nothing.err
    assert "node right: no container runs" in nothing.err
    ids = hand.group()
    before = [hand.inspect(rank, ids[rank])["State"] for rank in (0, 1)]

    adopted = world.done("adopt", "pair", "-m", "what the team runs today")
    assert (adopted["revision"], adopted["changed"], adopted["digest"]) == (1, True, hand.id(PLAIN))
    assert [rank["container"] for rank in adopted["ranks"]] == ids
    assert adopted["secrets"] == ["env:HF_TOKEN"]
    assert adopted["warnings"] == [
        "gate patchset is left out: the image was not built by Hallmark, so it has no patch set"
    ]
    told = "\n".join(adopted["differences"])
    assert "rank 0 (left): only what runs has the argument --max-model-len 512" in told
    assert f"image: {PLAIN} ({hand.id(PLAIN)}) runs, the profile's is {hand.repository}:a-" in told
    assert "rank 1 (right): the variable HF_TOKEN is a secret (env:HF_TOKEN), the profile's is not set" in told
    assert "only what runs has --cpus 1.5" in told
    for path in [it for it in world.node.rglob("*") if it.is_file()]:
        assert SECRET not in path.read_text(errors="replace"), path
    assert world.done("adopt", "pair")["changed"] is False
    assert world.done("status", "pair")["state"] == "running"
    assert [hand.inspect(rank, ids[rank])["State"] for rank in (0, 1)] == before

    world.done("key", "new", "ops")
    certified = world.done("certify", "pair")
    assert certified["tag"] == f"{hand.repository}:a-certified"
    with Repository(repository(hand.repository, None)) as there:
        proven = there.manifest("a-certified")
        assert proven is not None
        assert (f"{hand.repository}@{proven.digest}", proven.config) == (certified["attached"], hand.id(PLAIN))

    verified = world.done("certificate", "verify", certified["tag"], "--profile", "a")
    assert (verified["valid"], verified["digest"]) == (True, proven.digest)
    assert [it["valid"] for it in world.done("certificate", "list", certified["attached"])["certificates"]] == [True]
    assert world.done("certificate", "show", certified["tag"])["statement"]["subject"] == [
        {"name": "config", "digest": {"sha256": hand.id(PLAIN).removeprefix("sha256:")}},
        {"name": hand.repository, "digest": {"sha256": proven.digest.removeprefix("sha256:")}},
    ]
    # Another cluster has no history of it, and other arguments.
    world.cluster("other", **hand.settings)
    opened = work(world.home, "other", print)
    wanted = want(opened, None, None, certified["tag"])
    said = standing(opened, wanted.plan, "here").said
    assert f"is certified, but with other arguments: a certificate beside {certified['attached']}, tested" in said
    nowhere = world.run("certificate", "show", f"{hand.repository}:nowhere")
    assert (nowhere.exit, f"there is no image {hand.repository}:nowhere" in nowhere.err) == (2, True)

    refused = world.run("launch", "pair", "--image", COLLAPSED)
    assert (refused.exit, "revision 1 is back and answers" in refused.err) == (2, True), refused.err
    assert hand.running() == [[ids[0]], [ids[1]]]

    launched = world.run("launch", "pair", "--image", PATCHED)
    assert (launched.exit, f"this is a trial: {PATCHED}" in launched.err) == (0, True), launched.err
    assert all(set(now).isdisjoint(ids) for now in hand.running())
    assert hand.inspect(1, hand.running()[1][0])["Image"] == hand.id(PATCHED)
    ours = world.run("adopt", "pair")
    assert (ours.exit, "revision 3 of this cluster runs — `hallmark stop pair` first" in ours.err) == (2, True)
    # The second node got it by digest from the registry, through the connection.
    digests = json.loads(hand.nodes.engines[1].docker("image", "inspect", hand.id(PATCHED)).stdout)[0]["RepoDigests"]
    assert [it.partition("/")[2].partition("@")[0] for it in digests] == [hand.repository.partition("/")[2]]

    with Repository(repository(hand.repository, None)) as there:
        other = there.manifest(hand.id(PATCHED).removeprefix("sha256:")[:12])
        assert other is not None
        there.put_manifest("a-certified", other.kind, other.content)
    bare = world.run("certificate", "verify", f"{hand.repository}:a-certified")
    assert (bare.exit, "no certificate is attached to" in bare.err) == (2, True), bare.err
    for named in (hand.id(PATCHED), other.digest, f"{hand.repository}@{other.digest}"):
        not_proven = world.run("rollback", "pair", "--to", named)
        assert (not_proven.exit, "revision 3" in not_proven.err) == (2, True), not_proven.err
        assert "is not certified — only what was proven can be restored" in not_proven.err
    back = world.run("rollback", "pair", "--to", f"{hand.repository}:a-certified")
    assert back.exit == 0, back.err
    assert (
        f"a-certified names {hand.id(PATCHED)} now, but certified was {hand.id(PLAIN)} (revision 1, since" in back.err
    )
    assert hand.running() == [[ids[0]], [ids[1]]]
    assert world.done("history", "pair")["revisions"][-1]["restores"] == 1
    assert [it["state"] for it in world.done("history", "pair")["revisions"]] == [
        "adopted",
        "restored",
        "committed",
        "committed",
    ]

    assert world.done("stop", "pair")["stopped"] == [4]
    assert hand.running() == [[], []]
    old = hand.inspect(1, ids[1])
    assert hand.inspect(0, ids[0])["Id"] == ids[0]

    # One that somebody removed is made again as it was, once its secret is there.
    hand.nodes.engines[1].docker("rm", ids[1])
    world.patches.delenv("HF_TOKEN")
    refused = world.run("rollback", "pair", "--to", "1")
    assert (refused.exit, "the secret env:HF_TOKEN is not set" in refused.err) == (2, True), refused.err
    world.patches.setenv("HF_TOKEN", SECRET)
    world.done("rollback", "pair", "--to", "1")
    assert hand.running()[0] == [ids[0]]
    [made] = hand.running()[1]
    assert made != ids[1]
    same_container(hand.inspect(1, made), old)


def same_container(new: dict[str, Any], old: dict[str, Any]) -> None:
    for part in ("NetworkMode", "NanoCpus", "ShmSize", "CapAdd", "RestartPolicy", "Ulimits", "Privileged", "IpcMode"):
        assert (new["HostConfig"][part] or None) == (old["HostConfig"][part] or None), part
    assert new["Image"] == old["Image"]
    assert sorted(new["Config"]["Env"]) == sorted(old["Config"]["Env"])
    argv = [[*(it["Config"]["Entrypoint"] or ()), *(it["Config"]["Cmd"] or ())] for it in (old, new)]
    assert argv[0] == argv[1]
    mounts = [[(m["Source"], m["Destination"], m["RW"]) for m in it["Mounts"]] for it in (old, new)]
    assert mounts[0] == mounts[1]


def test_an_image_that_only_a_node_has_gets_to_the_registry_from_there(
    hand: ByHand, images: list[archive.Base]
) -> None:
    engine, base = hand.nodes.engines[1], images[3]
    archive.load(base, engine.client, engine.host)
    digest = engine.docker("image", "inspect", "--format", "{{.Id}}", base.reference).stdout.strip()
    nodes = [Place(f"n{it.port}", f"ssh://{it.address}:{it.port}") for it in hand.nodes.nodes]
    image = staged(base.reference, digest.removeprefix("sha256:"), nodes, repository(hand.repository, None))
    assert (image.published(), image.unrestorable()) == (None, [])
    image.stage(lambda line: None)
    assert image.lacking() == []
    assert image.published() == image.publish(lambda line: None)
