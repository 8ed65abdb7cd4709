"""The StandIn on two nodes that can be cut off: engines behind SSH, each in a network namespace of its own."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from launch.group import liveness
from launch.nodes import ssh
from scripts.bases import archive
from scripts.engines import group, network
from scripts.engines.packages import program
from tests.conftest import possible
from tests.standin.image import standin
from tests.standin.pair import Pair
from tests.standin.world import GATES, World


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[group.Group]:
    """Two nodes with the StandIn's images on the first one's engine."""
    with ExitStack() as stack:
        with possible():
            nets = stack.enter_context(network.two())
            made = stack.enter_context(group.running(2, nets))
            program("docker-registry", "docker-registry")
            for base in (standin(), standin("greets")):
                archive.load(base, made.engines[0].client, made.engines[0].host)
        yield made


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def apart(remote: group.Group, cache: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """The cluster on these nodes. Limits are shorter than a person's, since each test waits for one; what they are is
    tested beside their code."""
    monkeypatch.setattr(ssh, "ALIVE_SECONDS", 1)
    monkeypatch.setattr(ssh, "CONNECT_SECONDS", 2)
    monkeypatch.setattr(liveness, "CUT_SECONDS", 2.5)
    monkeypatch.setenv("HALLMARK_CACHE", str(cache))
    monkeypatch.setenv("DOCKER_HOST", remote.engines[0].host)
    monkeypatch.setenv("HALLMARK_SSH_CONFIG", str(remote.config))
    head = remote.engines[0].network
    assert head is not None
    world.host = head.fabric
    made = Pair(world, remote)
    world.cluster(engine="docker", nodes=made.listed(), paths=made.paths)
    world.write("gates/answers.yaml", GATES["answers"] | {"deadline": 3.0})
    for name in ("a", "b", "c"):
        world.profile(name, gates={"trial": ["answers"], "certify": ["answers"]})
    ssh._sockets.cache_clear()
    ssh._failed.clear()
    yield made
    for engine in remote.engines:
        assert engine.network is not None
        engine.network.back()
    made.clear()
