"""How images get to nodes: real engines behind sshd, and a real registry that stands for a public one."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from launch.nodes import image, layers, ssh
from launch.nodes.image import StagedImage
from launch.plan.place import Place
from scripts.bases import archive
from scripts.engines import engine, registry
from scripts.engines.engine import Engine
from scripts.engines.group import Group
from tests.conftest import possible
from tests.standin.image import standin
from tests.standin.world import free_ports

pytestmark = pytest.mark.docker
_BASE = "org.opencontainers.image.base"


@pytest.fixture(scope="module")
def images(nodes: Group) -> tuple[archive.Base, archive.Base]:
    """The StandIn and its update, made before a test has a cache of its own."""
    with possible():
        return loaded(standin(), nodes), loaded(standin("greets"), nodes)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests here, so that only the first one pushes the Debian."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def plain(
    images: tuple[archive.Base, archive.Base], nodes: Group, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> archive.Base:
    monkeypatch.setenv("HALLMARK_CACHE", str(cache))
    monkeypatch.setenv("DOCKER_HOST", nodes.engines[0].host)
    # What other tests took away from the engine.
    for base in images:
        loaded(base, nodes)
    return images[0]


@pytest.fixture
def update(images: tuple[archive.Base, archive.Base], plain: archive.Base) -> archive.Base:
    return images[1]


@pytest.fixture
def right(nodes: Group, plain: archive.Base, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """The second node, which has no images."""
    monkeypatch.setenv("HALLMARK_SSH_CONFIG", str(nodes.config))
    ssh._sockets.cache_clear()
    empty(nodes.engines[1])
    node = nodes.nodes[1]
    yield Place("right", f"ssh://{node.address}:{node.port}")
    empty(nodes.engines[1])


def empty(of: Engine) -> None:
    ids = of.docker("image", "ls", "--quiet", "--no-trunc").stdout.split()
    if ids:
        of.docker("image", "rm", "--force", *dict.fromkeys(ids))


def loaded(base: archive.Base, nodes: Group) -> archive.Base:
    archive.load(base, nodes.engines[0].client, nodes.engines[0].host)
    return base


def staged(base: archive.Base, *places: Place) -> StagedImage:
    return image.staged(base.reference, base.digest.removeprefix("sha256:"), places)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of every archive that goes through SSH."""
    sizes: list[int] = []
    real = layers.load

    def load(place: Place, file: IO[bytes]) -> None:
        sizes.append(file.seek(0, 2))
        real(place, file)

    monkeypatch.setattr(layers, "load", load)
    return sizes


def test_a_public_base_is_pulled_by_the_node_and_only_the_patch_layer_is_sent(
    right: Place, nodes: Group, plain: archive.Base, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every registry here is on loopback.
    monkeypatch.setattr(image, "loopback", lambda host: False)
    first = nodes.engines[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hallmark-", ignore_cleanup_errors=True)))
        with possible():
            public = registry.start(folder, free_ports(1)[0])
        stack.callback(public.end)
        base = loaded(archive.Base(f"{public.address}/public/debian:1", plain.architecture, plain.layers[:1]), nodes)
        first.docker("push", base.reference)
        digest = first.docker("image", "inspect", "--format", "{{index .RepoDigests 0}}", base.reference).stdout
        labels = ((f"{_BASE}.name", base.reference), (f"{_BASE}.digest", digest.strip().partition("@")[2]))
        patched = loaded(archive.Base("localhost/standin-public:1", plain.architecture, plain.layers, labels), nodes)
        said: list[str] = []
        told: list[tuple[int, int]] = []
        staged(patched, right).stage(said.append, lambda name: lambda done, total: told.append((done, total)))
        assert f"  right pulls {digest.strip()}" in said
        assert "  right has 1 of 2 layers and gets the others of localhost/standin-public:1" in said
        [size] = sent
        assert size < 100_000
        assert told[-1] == (2, 2)
        assert staged(patched, right).lacking() == []
        first.docker("image", "rm", patched.reference, base.reference)


def test_a_base_that_the_node_cannot_pull_comes_from_here(
    right: Place, nodes: Group, plain: archive.Base, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "loopback", lambda host: False)
    labels = ((f"{_BASE}.name", "127.0.0.1:1/gone:1"), (f"{_BASE}.digest", f"sha256:{'0' * 64}"))
    patched = loaded(archive.Base("localhost/standin-public:1", plain.architecture, plain.layers, labels), nodes)
    said: list[str] = []
    staged(patched, right).stage(said.append)
    assert any(line.startswith("  right cannot pull it, so it comes from here") for line in said)
    assert (sent, staged(patched, right).lacking()) == ([], [])
    nodes.engines[0].docker("image", "rm", patched.reference)


def test_an_update_sends_only_its_own_layer(
    right: Place, plain: archive.Base, update: archive.Base, sent: list[int]
) -> None:
    staged(plain, right).stage(lambda line: None)
    assert staged(update, right).coming(right, 10**9) < 10**9
    staged(update, right).stage(lambda line: None)
    assert staged(update, right).lacking() == []
    assert [size < 100_000 for size in sent] == [True]


def test_a_connection_that_is_lost_during_a_pull_is_made_once_more(
    right: Place, nodes: Group, plain: archive.Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = layers.pull
    lost: list[int] = []

    def pull(place: Place, name: str, hear: layers.Hear) -> None:
        def lose(done: int, total: int) -> None:
            # The pull's own connection, and the one to the registry.
            if not lost:
                lost.append(nodes.nodes[1].lose())

        real(place, name, lose)

    monkeypatch.setattr(layers, "pull", pull)
    said: list[str] = []
    staged(plain, right).stage(said.append)
    assert lost
    assert [line for line in said if line.startswith("  right: once more, because ")]
    assert staged(plain, right).lacking() == []


def test_an_image_is_the_same_on_another_storage_driver_and_behind_save_and_load(
    nodes: Group, plain: archive.Base, update: archive.Base, sent: list[int]
) -> None:
    first = nodes.engines[0]
    drivers = first.docker("info", "--format", "{{.Driver}}").stdout
    assert drivers.strip() != "vfs"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hallmark-", ignore_cleanup_errors=True)))
        with possible():
            other = engine.start(4, folder / "4", "vfs")
        stack.callback(other.end)
        assert other.docker("info", "--format", "{{.Driver}}").stdout.strip() == "vfs"
        save = subprocess.Popen(
            [first.client, "--host", first.host, "save", plain.reference], stdout=subprocess.PIPE, text=False
        )
        subprocess.run([other.client, "--host", other.host, "load", "--quiet"], stdin=save.stdout, check=True)
        assert save.wait() == 0
        place = Place("vfs", "local", other.host)
        assert staged(plain, place).lacking() == []
        staged(update, place).stage(lambda line: None)
        assert staged(update, place).lacking() == []
        # Only the layer that was not loaded there.
        assert [size < 100_000 for size in sent] == [True]
