"""What is said when nodes of a docker cluster cannot run a plan; engines and sshd are real, nothing is started."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from launch.nodes import ssh
from recipe.errors import Exit
from scripts.engines.group import Group
from tests.standin.world import World, free_ports

pytestmark = pytest.mark.docker
IMAGE = "localhost/nothing:1"


@pytest.fixture
def pair(world: World, nodes: Group, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The world's cluster on two real nodes, with an image that has nothing in it."""
    monkeypatch.setenv("DOCKER_HOST", nodes.engines[0].host)
    monkeypatch.setenv("HALLMARK_SSH_CONFIG", str(nodes.config))
    empty = subprocess.run(["tar", "-c", "--files-from", "/dev/null"], check=True, capture_output=True).stdout
    words = [nodes.engines[0].client, "--host", nodes.engines[0].host, "import", "-", IMAGE]
    subprocess.run(words, check=True, input=empty, capture_output=True)
    change(world, nodes)
    # A connection that is open already would hide what is wrong with the next one.
    ssh._sockets.cache_clear()
    # So would a node that an earlier test lost, which this process does not ask again for a moment.
    monkeypatch.setattr(ssh, "_failed", {})
    yield world
    for engine in nodes.engines:
        left = engine.docker("ps", "--all", "--quiet", "--filter", "label=dev.hallmark.cluster=pair").stdout.split()
        if left:
            engine.docker("rm", "--force", *left)
    nodes.engines[0].docker("image", "rm", IMAGE)


def change(world: World, nodes: Group, **second: str) -> None:
    """Write the cluster's file, with changes of its second node."""
    left, right = (
        {"name": name, "address": f"ssh://{node.address}:{node.port}", "fabric": node.address}
        for name, node in zip(("left", "right"), nodes.nodes, strict=True)
    )
    world.cluster(
        engine="docker", nodes=[left, right | second], paths={"state": str(world.node), "models": str(world.models)}
    )


def refused_port(world: World, nodes: Group) -> None:
    change(world, nodes, address=f"ssh://127.0.0.2:{free_ports(1)[0]}")


def unknown_key(world: World, nodes: Group) -> None:
    # The same sshd by a name that known_hosts does not have.
    config = world.home / "ssh_config"
    config.write_text(f"Host 127.0.0.2\n  UserKnownHostsFile /dev/null\nHost *\n  Include {nodes.config}\n")
    world.patches.setenv("HALLMARK_SSH_CONFIG", str(config))


def no_engine(world: World, nodes: Group) -> None:
    change(world, nodes, **{"docker-host": "unix:///nowhere/docker.sock"})


def other_architecture(world: World, nodes: Group) -> None:
    machine = yaml.safe_load((world.home / "configs/hardware/here.yaml").read_text())["architecture"]
    world.hardware(architecture="arm64" if machine == "amd64" else "amd64")


def no_model(world: World, nodes: Group) -> None:
    (world.models / "tiny" / "config.json").unlink()


@pytest.mark.parametrize(
    ("break_it", "status", "says"),
    [
        (refused_port, Exit.UNREACHABLE, "node right: it refuses SSH connections"),
        (unknown_key, Exit.UNREACHABLE, "node right: its host key is not known here"),
        (no_engine, Exit.UNREACHABLE, "node right: no engine answers at unix:///nowhere/docker.sock"),
        (other_architecture, Exit.NOT_DONE, "node right: is linux/"),
        (no_model, Exit.NOT_DONE, "node right: the model folder"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_node_that_cannot_take_part_is_named_and_nothing_is_changed(
    pair: World, nodes: Group, break_it: Callable[[World, Group], None], status: Exit, says: str
) -> None:
    """B3: a host key that is not known; B8: a node of another architecture."""
    break_it(pair, nodes)
    result = pair.run("launch", "pair", "--image", IMAGE, "--json")
    assert (result.exit, says in result.err) == (status, True), result.err
    assert result.document["error"]["exit"] == status
    there = pair.node / "clusters" / "pair"
    assert not (there / "journal.jsonl").exists()
    assert not (there / "lock").exists()


def test_preflight_says_of_real_nodes_what_holds_and_what_is_missing_and_changes_nothing(
    pair: World, nodes: Group
) -> None:
    result = pair.run("preflight", "pair", "--json")
    assert result.exit == Exit.NOT_DONE, result.err
    failed = [it for it in result.document["checks"] if it["verdict"] == "FAIL"]
    assert [it["check"] for it in failed] == ["image"]
    assert "there is no image hallmark:a-" in failed[0]["message"], failed
    passed = {(it["check"], it["node"]) for it in result.document["checks"] if it["verdict"] == "PASS"}
    assert {(check, name) for check in ("engine", "model", "clock", "shm") for name in ("left", "right")} <= passed
    assert ("ports", "left") in passed and ("master-port", "right") in passed
    assert not pair.node.exists()


def test_a_port_of_the_head_that_a_stranger_has_is_told_with_its_process(pair: World, nodes: Group) -> None:
    """D5: told over SSH with who it is, and no container is made."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", pair.api))
        server.listen()
        result = pair.run("launch", "pair", "--image", IMAGE)
    assert result.exit == Exit.NOT_DONE
    assert f"node left: port {pair.api} is taken by process {os.getpid()} (" in result.err, result.err
    for engine in nodes.engines:
        assert engine.docker("ps", "--all", "--quiet", "--filter", "label=dev.hallmark.cluster=pair").stdout == ""


def test_without_its_head_a_cluster_has_no_history_and_nothing_is_done(pair: World, nodes: Group) -> None:
    left = {"name": "left", "address": f"ssh://127.0.0.1:{free_ports(1)[0]}", "fabric": "127.0.0.1"}
    right = {"name": "right", "address": f"ssh://127.0.0.2:{nodes.nodes[1].port}", "fabric": "127.0.0.2"}
    paths = {"state": str(pair.node), "models": str(pair.models)}
    pair.cluster(engine="docker", nodes=[left, right], paths=paths)
    pair.done("key", "new", "ops")
    for words in (("launch", "--image", IMAGE), ("stop",), ("status",), ("history",), ("certify",), ("rollback",)):
        result = pair.run(words[0], "pair", *words[1:])
        told = "node left: it refuses SSH connections" in result.err
        assert (result.exit, told) == (Exit.UNREACHABLE, True), result.err
    # `stop` locks the node that it reaches, to end what runs there.
    assert {it.name for it in pair.node.rglob("*") if it.is_file()} <= {".guard"}


def test_an_image_that_is_not_here_is_refused_by_name(pair: World) -> None:
    result = pair.run("launch", "pair", "--image", "localhost/never:1")
    assert (result.exit, "--image: there is no image localhost/never:1" in result.err) == (Exit.NOT_DONE, True)


def test_an_engine_that_is_not_here_is_one_line(pair: World) -> None:
    pair.patches.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    result = pair.run("launch", "pair", "--image", IMAGE)
    assert (result.exit, "no engine answers at unix:///nowhere/docker.sock" in result.err) == (Exit.UNREACHABLE, True)


def test_without_docker_here_it_says_what_to_install(
    pair: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(tmp_path))
        result = pair.run("launch", "pair", "--image", IMAGE)
    assert (result.exit, "there is no program docker on PATH — install docker" in result.err) == (Exit.USAGE, True)


def over_ssh(world: World, nodes: Group) -> None:
    """As the cluster's file is."""


def local(world: World, nodes: Group) -> None:
    change(world, nodes, address="local", **{"docker-host": nodes.engines[1].host})


@pytest.mark.parametrize("reached", [over_ssh, local], ids=lambda value: value.__name__)
def test_an_image_gets_to_a_node_by_digest_and_one_that_cannot_run_is_refused(
    pair: World, nodes: Group, reached: Callable[[World, Group], None]
) -> None:
    """B4: what the node then has is compared with what was sent, and nothing is left of the way there."""
    reached(pair, nodes)
    first, second = nodes.engines
    digest = first.docker("image", "inspect", "--format", "{{.Id}}", IMAGE).stdout.strip()
    assert second.docker("image", "inspect", digest, check=False).returncode
    result = pair.run("launch", "pair", "--image", IMAGE)
    assert (result.exit, "nothing runs, as before" in result.err) == (Exit.NOT_DONE, True), result.err
    assert [entry.event.value for entry in pair.journal().entries] == ["INTENT", "STAGED", "STOPPED", "RESTORED"]
    assert second.docker("image", "inspect", "--format", "{{.Id}}", digest).stdout.strip() == digest
    assert first.docker("image", "inspect", "--format", "{{json .RepoDigests}}", digest).stdout.strip() == "[]"
    for engine in nodes.engines:
        assert engine.docker("ps", "--quiet").stdout == ""
