"""What tests of the StandIn in containers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.nodes import ssh
from scripts.bases import archive
from scripts.engines.group import Group
from tests.conftest import possible
from tests.standin.image import standin
from tests.standin.pair import Pair
from tests.standin.world import World


@pytest.fixture(scope="session")
def images(nodes: Group) -> list[archive.Base]:
    """Made before a world has a cache of its own."""
    with possible():
        return [standin(), standin("greets"), standin("collapses")]


@pytest.fixture(scope="session")
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
    made = Pair(world, nodes, nodes.engines[0], str(world.node))
    world.cluster(engine="docker", nodes=made.listed(), paths=made.paths)
    world.profile("a", gates={"trial": ["answers", "acceptance"], "certify": ["answers", "acceptance"]})
    ssh._sockets.cache_clear()
    yield made
    made.clear()
