"""Rollbacks of the StandIn in containers on two real engines, with a registry: what is missing, moved, or down."""

import platform
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from launch.nodes import reach, stream
from launch.plan.place import Place
from launch.proof import attached
from recipe.image.reference import certified_tag, repository
from recipe.image.registry import OCI_MANIFEST, Repository
from scripts.engines import registry
from tests.conftest import possible
from tests.standin.pair import COLLAPSED, PATCHED, PLAIN, Pair
from tests.standin.world import MACHINES, free_ports

pytestmark = pytest.mark.docker


class Store:
    """The cluster's registry, and the commands that nodes were given."""

    def __init__(self, pair: Pair, folder: Path, port: int) -> None:
        self.pair = pair
        self._port = port
        self._running: registry.Registry | None = None
        self.start(folder)
        self.repository = f"127.0.0.1:{port}/vllm"
        self.asked: list[tuple[str, ...]] = []
        engine = pair.nodes.engines[0]
        self.ids = {
            image: engine.docker("image", "inspect", "--format", "{{.Id}}", image).stdout.strip()
            for image in (PLAIN, PATCHED, COLLAPSED)
        }

    def start(self, folder: Path) -> None:
        self._running = registry.start(folder, self._port)

    def end(self) -> None:
        if self._running is not None:
            self._running.end()
            self._running = None

    def push(self, image: str, tag: str) -> str:
        """As a person does; gives the manifest's digest."""
        engine, name = self.pair.nodes.engines[0], f"{self.repository}:{tag}"
        engine.docker("tag", self.ids[image], name)
        engine.docker("push", "--quiet", name)
        engine.docker("image", "rm", "--no-prune", name)
        with Repository(repository(self.repository, None)) as there:
            found = there.manifest(tag)
        assert found is not None
        return found.digest

    def remove(self, image: str, *engines: int) -> None:
        """The image and the containers of it, as a person who cleans up does."""
        for number in engines:
            engine = self.pair.nodes.engines[number]
            words = ("ps", "--all", "--quiet", "--filter", f"ancestor={self.ids[image]}")
            if left := engine.docker(*words).stdout.split():
                engine.docker("rm", "--force", *left)
            engine.docker("image", "rm", "--force", self.ids[image])

    def stops(self) -> list[int]:
        """Which of the commands since the last look stopped something."""
        return [at for at, argv in enumerate(self.asked) if argv[0] == "docker" and "stop" in argv]

    def pulls(self) -> list[int]:
        return [at for at, argv in enumerate(self.asked) if "docker" in argv and "pull" in argv]


@pytest.fixture
def store(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    [port] = free_ports(1)
    with possible():
        made = Store(pair, tmp_path / "registry", port)
    pair.world.cluster(engine="docker", nodes=pair.listed(), paths=pair.paths, registry=made.repository)
    real = reach.run

    def run(place: Place, argv: Sequence[str], **named: Any) -> "subprocess.CompletedProcess[str]":
        made.asked.append(tuple(argv))
        return real(place, argv, **named)

    followed = stream.follow

    def follow(place: Place, argv: Sequence[str], *more: Any) -> int:
        made.asked.append(tuple(argv))
        return followed(place, argv, *more)

    monkeypatch.setattr(reach, "run", run)
    monkeypatch.setattr(stream, "follow", follow)
    yield made
    made.end()


def test_what_a_rollback_needs_is_fetched_by_digest_before_anything_stops_or_nothing_is_touched(
    pair: Pair, store: Store, tmp_path: Path
) -> None:
    """B5 and B7, in one story, because each start takes seconds."""
    world, name = pair.world, store.repository
    proven = {PLAIN: store.push(PLAIN, "plain"), PATCHED: store.push(PATCHED, "patched")}
    world.done("key", "new", "ops")
    world.done("launch", "pair", "--image", f"{name}:plain")
    assert world.done("certify", "pair")["attached"] == f"{name}@{proven[PLAIN]}"
    world.done("launch", "pair", "--image", f"{name}:patched")
    world.done("certify", "pair")

    # B7, as a person's cleaning leaves it: one node lacks the image, the registry has it.
    store.remove(PLAIN, 1)
    store.asked.clear()
    world.done("rollback", "pair", "--to", "1")
    assert pair.serves(store.ids[PLAIN])
    [pull], stops = store.pulls(), store.stops()
    assert store.asked[pull][-1].endswith(f"@{proven[PLAIN]}")
    assert stops and pull < min(stops)

    # B7: nobody has it. The registry is empty, then it is down.
    world.done("rollback", "pair", "--to", "2")
    store.remove(PLAIN, 0, 1)
    store.end()
    store.start(tmp_path / "empty")
    store.asked.clear()
    refused = world.run("rollback", "pair", "--to", "1")
    assert (refused.exit, store.stops()) == (2, []), refused.err
    assert f"{store.ids[PLAIN]} is neither here nor on left, right" in refused.err
    store.end()
    refused = world.run("rollback", "pair", "--to", "1")
    assert (refused.exit, store.stops()) == (2, []), refused.err
    assert f"and the registry {name.partition('/')[0]} does not answer" in refused.err
    assert pair.serves(store.ids[PATCHED])

    # B5: every tag was moved; the certified digest is what is fetched.
    store.start(tmp_path / "registry")
    with Repository(repository(name, None)) as there:
        other = there.manifest(proven[PATCHED])
        assert other is not None
        for tag in ("plain", certified_tag("a"), store.ids[PLAIN].removeprefix("sha256:")[:12]):
            there.put_manifest(tag, other.kind, other.content)
    world.done("rollback", "pair", "--to", "1")
    assert pair.serves(store.ids[PLAIN])

    # The registry is down and the nodes have what is needed: it works, and what is not known is told.
    store.end()
    back = world.run("rollback", "pair", "--to", "2")
    assert back.exit == 0, back.err
    assert f"note: what {name}:a-certified names now is not known: the registry" in back.err
    assert pair.serves(store.ids[PATCHED])
    # The containers of what is certified stay, so that their images are not cleaned away.
    for engine in pair.nodes.engines:
        words = ("ps", "--all", "--quiet", "--filter", f"ancestor={store.ids[PLAIN]}", "--filter", "status=exited")
        assert engine.docker(*words).stdout.split()

    # A node lacks it, the registry is down, and this machine's engine has it.
    store.remove(PLAIN, 1)
    forth = world.run("rollback", "pair", "--to", "1")
    assert (forth.exit, "is served from here" in forth.err) == (0, True), forth.err
    assert pair.serves(store.ids[PLAIN])


def test_a_certificate_counts_for_its_own_image_and_hardware_only_and_a_moved_tag_is_not_launched(
    pair: Pair, store: Store
) -> None:
    """B5: the tag that says certified."""
    world, name = pair.world, store.repository
    proven, bad = store.push(PLAIN, "plain"), store.push(COLLAPSED, "collapsed")
    world.done("key", "new", "ops")
    world.done("launch", "pair", "--image", f"{name}:plain")
    tag = world.done("certify", "pair")["tag"]
    for same in (f"{name}:plain", tag):
        told = world.run("launch", "pair", "--image", same, "--json")
        assert (told.exit, told.document["changed"], "is certified: certificate " in told.err) == (0, False, True)

    with Repository(repository(name, None)) as there:
        copied, other = there.manifest(attached.tag(proven)), there.manifest(bad)
        assert copied is not None and other is not None
        there.put_manifest(attached.tag(bad), OCI_MANIFEST, copied.content)
        there.put_manifest(certified_tag("a"), other.kind, other.content)
    told = world.run("certificate", "verify", f"{name}@{bad}")
    assert told.exit == 4
    assert f"wrong digest: it is about {store.ids[PLAIN]}, not {bad}" in told.out
    trial = world.run("launch", "pair", "--image", f"{name}@{bad}", "--dry-run")
    assert (trial.exit, "is not certified" in trial.err, "wrong digest: it is about" in trial.err) == (0, True, True)
    listed = world.done("certificate", "list", "pair")["certificates"]
    assert sorted((it["valid"], it["images"]) for it in listed) == [
        (False, [f"{name}@{bad}"]),
        (True, [f"{name}@{proven}"]),
    ]
    assert len(world.done("certificate", "list", name)["certificates"]) == 2

    moved = world.run("launch", "pair", "--image", tag)
    assert moved.exit == 2
    was, now = f"{store.ids[PLAIN]} (revision 1)", store.ids[COLLAPSED]
    assert f"tag moved: {tag} was certified as {was}, and names {now} now" in moved.err
    assert f"`hallmark rollback pair --to {tag}` takes what was certified" in moved.err

    # Any other tag is what it names, which is told.
    with Repository(repository(name, None)) as there:
        there.put_manifest("plain", other.kind, other.content)
    told = world.run("launch", "pair", "--image", f"{name}:plain", "--dry-run")
    assert (told.exit, f"note: tag moved: {name}:plain was certified as {was}" in told.err) == (0, True), told.err

    kind = {"summary": "another kind", "architecture": MACHINES[platform.machine()], "device": "cpu", "gpus": 1}
    world.write("hardware/elsewhere.yaml", kind)
    world.profile("a", hardware="elsewhere", gates={"trial": ["answers"], "certify": ["answers"]})
    other_kind = world.run("launch", "pair", "--image", f"{name}@{proven}", "--dry-run")
    assert "wrong hardware: it was tested on here, not elsewhere" in other_kind.err
    assert pair.serves(store.ids[PLAIN])
