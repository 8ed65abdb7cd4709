"""The StandIn on two nodes that can be cut off: engines behind SSH, each in a network namespace of its own."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from launch.engines import containers
from launch.group import liveness
from launch.nodes import ssh
from scripts.bases import archive
from scripts.engines import engine, group, network
from scripts.engines.engine import Engine
from scripts.engines.packages import program
from tests.conftest import possible
from tests.standin.image import standin
from tests.standin.pair import PATCHED, PLAIN, Pair
from tests.standin.world import GATES, World

# Those of the session's own nodes and of tests beside them are lower.
_CONTROLLER, _FIRST = 4, 5


@pytest.fixture(scope="module")
def here() -> Iterator[Engine]:
    """The controller's engine, which has the StandIn's images and is cut off from nothing."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hallmark-", ignore_cleanup_errors=True)))
        with possible():
            made = engine.start(_CONTROLLER, folder / str(_CONTROLLER))
            stack.callback(made.end)
            for behaviours in ((), ("greets",), ("hangs-at-start",)):
                archive.load(standin(*behaviours), made.client, made.host)
            program("docker-registry", "docker-registry")
        yield made


@pytest.fixture(scope="module")
def remote() -> Iterator[group.Group]:
    """Two nodes in namespaces."""
    with ExitStack() as stack:
        with possible():
            nets = stack.enter_context(network.two())
            made = stack.enter_context(group.running(2, _FIRST, nets))
        yield made


@pytest.fixture(scope="module")
def apart(here: Engine, remote: group.Group, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The cluster on these nodes, whose records are in a folder of each node's own; both images are certified, and one
    of them runs. Made once, because the images take seconds to get there."""
    folder = tmp_path_factory.mktemp("apart")
    with pytest.MonkeyPatch.context() as patches:
        world = World(folder, patches)
        patches.setenv("DOCKER_HOST", here.host)
        patches.setenv("HALLMARK_SSH_CONFIG", str(remote.config))
        head = remote.engines[0].network
        assert head is not None
        world.host = head.fabric
        made = Pair(world, remote, here, "~/state")
        world.cluster(engine="docker", nodes=made.listed(), paths=made.paths)
        world.write("gates/answers.yaml", GATES["answers"] | {"deadline": 3.0})
        world.profile("a", gates={"trial": ["answers"], "certify": ["answers"]})
        ssh._sockets.cache_clear()
        world.done("key", "new", "ops")
        for image in (PLAIN, PATCHED):
            world.done("launch", "pair", "--image", image)
            world.done("certify", "pair")
        yield made
        made.clear()


@pytest.fixture
def linked(apart: Pair) -> Iterator[Pair]:
    """The same; whatever a test did, its nodes are reached after it."""
    ssh._failed.clear()
    yield apart
    apart.back()


@pytest.fixture
def cut(linked: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """The same with limits that are shorter than a person's, since each test waits for one; what they are is tested
    beside their code."""
    monkeypatch.setattr(ssh, "ALIVE_SECONDS", 1)
    monkeypatch.setattr(ssh, "CONNECT_SECONDS", 1)
    monkeypatch.setattr(containers, "LOOK_SECONDS", 3.0)
    monkeypatch.setattr(liveness, "CUT_SECONDS", 5.0)
    # Connections are made anew with these.
    ssh._sockets.cache_clear()
    return linked
