"""What tests with real container engines share: engines behind SSH, and the base images on the first one.

Everything is made once a session and only when a test asks for it. Such tests are marked `docker`. Where several
processes run the tests, one of them has all tests that need what the machine has once.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from recipe.errors import Refused
from scripts.bases import archive, vllm
from scripts.engines import emulation, slurm
from scripts.engines.engine import Engine
from scripts.engines.group import Group, running
from scripts.engines.packages import program
from scripts.engines.process import end_in_order


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-release", action="store_true", help="run the proofs of tests/proofs on every release they name"
    )
    parser.addoption("--every-fault", action="store_true", help="run all of the fault matrix, as `make faults` does")


def pytest_configure() -> None:
    end_in_order()


# Fixed ports, engines, gigabytes of memory, and caches that are filled when they are empty.
_MARKERS = {"docker", "vllm", "slurm", "wheel"}
_FIXTURES = {"nodes", "slurm_nodes"}
_GROUP = "machine"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need what the machine has once run in one process, first, so that others take all the rest."""
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if _MARKERS & {mark.name for mark in item.iter_markers()} or _FIXTURES & fixtures:
            item.add_marker(pytest.mark.xdist_group(_GROUP))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A name for what is too long for one: pytest tells the test's id to every program in a variable."""
    return f"{argname}-of-{len(val)}" if isinstance(val, (str, bytes)) and len(val) > 1000 else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Errors: UsageError when xdist would not keep the group together, of which it says nothing itself."""
    for item in session.items:
        if item.get_closest_marker("xdist_group") and not item.nodeid.endswith(f"@{_GROUP}"):
            raise pytest.UsageError(f"{item.nodeid} would run beside others of its group: use --dist loadgroup")


@contextmanager
def possible() -> Iterator[None]:
    """Skip what this machine cannot do, such as starting engines without being root; in CI it is a failure."""
    try:
        yield
    except Refused as error:
        if "CI" in os.environ:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def nodes() -> Iterator[Group]:
    """Two engines, each behind an sshd of its own; ended after the last test."""
    with ExitStack() as stack:
        with possible():
            group = stack.enter_context(running(2))
            # Hallmark serves images from it while it stages them.
            program("docker-registry", "docker-registry")
        yield group


@pytest.fixture(scope="session")
def slurm_nodes() -> Iterator[slurm.Slurm]:
    """A Slurm with two nodes; ended after the last test."""
    with ExitStack() as stack:
        with possible():
            found = stack.enter_context(slurm.running())
        yield found


@pytest.fixture(scope="session")
def engine(nodes: Group) -> Engine:
    """The engine that images are built on."""
    return nodes.engines[0]


@pytest.fixture(scope="session")
def cpu_base(engine: Engine) -> archive.Base:
    """vLLM for the CPU, on `engine`."""
    with possible():
        base = vllm.cpu()
    archive.load(base, engine.client, engine.host)
    return base


@pytest.fixture(scope="session")
def arm64_base(engine: Engine) -> Iterator[archive.Base]:
    """The sources of vLLM 0.33.0 on arm64, on `engine`, with an emulator to build on it."""
    with ExitStack() as stack:
        with possible():
            stack.enter_context(emulation.arm64())
            base = vllm.arm64()
        archive.load(base, engine.client, engine.host)
        yield base


@pytest.fixture(scope="session")
def released_base(engine: Engine, cpu_base: archive.Base) -> archive.Base:
    """The whole wheel of vLLM 0.33.0 on `engine`, on the layer of dependencies that it shares with `cpu_base`."""
    with possible():
        base = vllm.released()
    archive.load(base, engine.client, engine.host)
    return base
