"""A node whose engine has a small disk of its own: it is full before a launch, or gets full while the image arrives."""

import random
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from launch.nodes.image import StagedImage
from launch.nodes.staging import Bars
from scripts.bases import archive
from scripts.engines import engine, ssh
from scripts.engines.group import Group
from tests.conftest import possible
from tests.standin.image import standin
from tests.standin.pair import PLAIN, Pair

pytestmark = pytest.mark.docker
FAT = "localhost/standin-fat:1"
_DISK_MIB = 800
_FAT_MIB = 24


@pytest.fixture(scope="module")
def fat(cache: Path) -> archive.Base:
    """The StandIn with some MiB of a layer that cannot be compressed."""

    def write(tar: tarfile.TarFile) -> None:
        archive.add(tar, "srv/noise", random.Random(1).randbytes(_FAT_MIB * 2**20))

    plain = standin()
    return archive.Base(FAT, plain.architecture, (*plain.layers, archive.layer("fat", str(_FAT_MIB), write)))


@pytest.fixture
def small(fat: archive.Base, pair: Pair) -> Iterator[Pair]:
    """The pair with a second node on a file system of its own, and the file system's folder as DISK there."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hallmark-", ignore_cleanup_errors=True)))
        disk = folder / "3" / "data"
        disk.mkdir(parents=True)
        with possible():
            words = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "hallmark", str(disk)]
            subprocess.run(words, check=True, capture_output=True)
            stack.callback(lambda: subprocess.run(["umount", disk], check=False, capture_output=True))
            third = engine.start(3, folder / "3")
        stack.callback(third.end)
        node = ssh.start(third, folder / "ssh")
        stack.callback(node.end)
        config = folder / "config"
        config.write_text(f"Include {pair.nodes.config}\nInclude {ssh.configure([node], folder / 'ssh')}\n")
        pair.world.patches.setenv("HALLMARK_SSH_CONFIG", str(config))
        group = Group([pair.nodes.engines[0], third], [pair.nodes.nodes[0], node], config)
        made = Pair(pair.world, group, pair.here, pair.state)
        archive.load(fat, group.engines[0].client, group.engines[0].host)
        pair.world.cluster(engine="docker", nodes=made.listed(), paths=made.paths)
        yield made
        made.clear()


def fill(pair: Pair, leave: int) -> None:
    """Leave so many MiB on the second node's disk."""
    disk = pair.nodes.engines[1].folder / "data"
    free = int(subprocess.run(["df", "-Pm", disk], check=True, capture_output=True, text=True).stdout.split()[-3])
    subprocess.run(["fallocate", "-l", f"{free - leave}M", disk / "filler"], check=True)


def test_a_full_disk_stops_nothing_whenever_it_gets_full(small: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """B4. One story, because an engine and the StandIn's Debian take seconds to get there."""
    small.world.done("launch", "pair", "--image", PLAIN)
    before = small.running()
    real = StagedImage.stage

    def stage(self: StagedImage, say: Callable[[str], None], bars: Bars) -> None:
        fill(small, leave=_FAT_MIB // 2)
        real(self, say, bars)

    with monkeypatch.context() as patched:
        patched.setattr(StagedImage, "stage", stage)
        result = small.world.run("launch", "pair", "--image", FAT)
    assert (result.exit, "node right: the engine's disk is full: " in result.err) == (2, True), result.err
    assert "no space left on device — `docker system df` shows what fills it" in result.err
    assert [entry.event.value for entry in small.world.journal().entries[-2:]] == ["INTENT", "RESTORED"]
    assert (small.running(), small.serves(PLAIN)) == (before, True)

    result = small.world.run("launch", "pair", "--image", FAT)
    assert (result.exit, "data has 0.0 GiB free, what it lacks of the image needs 0." in result.err) == (2, True), (
        result.err
    )
    assert (small.running(), small.serves(PLAIN)) == (before, True)
    (small.nodes.engines[1].folder / "data" / "filler").unlink()
    small.world.done("launch", "pair", "--image", FAT)
    assert small.serves(FAT)
