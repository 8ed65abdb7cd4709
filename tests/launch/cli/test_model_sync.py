"""Model files from the head to a worker: two nodes behind sshds of their own, with a home each."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from launch.ledger import model as ledger
from launch.nodes import ssh as reached
from scripts.engines import ssh
from tests.conftest import possible
from tests.launch.cli.test_model import SHARDS, checkpoint, held
from tests.standin.hub import COMMIT, REPOSITORY, Hub
from tests.standin.world import World, until

# For Debian's packages and for mounting a small disk, as the engines' tests.
pytestmark = pytest.mark.docker
_NUMBERS = (21, 22)


class Pair:
    """`head` and `worker`: the model's folder on each node; `disk`: the worker's whole file system."""

    def __init__(self, folder: Path, world: World, nodes: list[ssh.Node]) -> None:
        self.world, self.nodes = world, nodes
        self.head, self.worker = (folder / f"home-{number}" / "models" / "tiny" for number in _NUMBERS)
        self.disk = folder / f"home-{_NUMBERS[1]}"

    def put(self, files: dict[str, bytes], folder: Path) -> None:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def command(self, *words: str) -> list[str]:
        return [str(Path(sys.executable).parent / "hallmark"), "--home", str(self.world.home), *words, "pair"]


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Path, list[ssh.Node]]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hallmark-", ignore_cleanup_errors=True)))
        with possible():
            for number in _NUMBERS:
                (folder / f"home-{number}").mkdir()
            words = ["mount", "-t", "tmpfs", "-o", "size=8m", "hallmark", str(folder / f"home-{_NUMBERS[1]}")]
            subprocess.run(words, check=True, capture_output=True)
            stack.callback(lambda: subprocess.run(["umount", "-l", words[-1]], check=False, capture_output=True))
            made = []
            for number in _NUMBERS:
                made.append(ssh.serve(number, folder / "ssh", {"HOME": str(folder / f"home-{number}")}))
                stack.callback(made[-1].end)
        ssh.configure(made, folder / "ssh")
        yield folder, made


@pytest.fixture
def pair(world: World, nodes: tuple[Path, list[ssh.Node]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    folder, machines = nodes
    monkeypatch.setenv("HALLMARK_SSH_CONFIG", str(folder / "ssh" / "config"))
    reached._sockets.cache_clear()
    listed = [
        {"name": name, "address": f"ssh://{node.address}:{node.port}", "fabric": node.address}
        for name, node in zip(("left", "right"), machines, strict=True)
    ]
    world.cluster(engine="docker", nodes=listed, paths={"models": "~/models"})
    world.profile("a", model=REPOSITORY, revision=COMMIT, base="localhost/none:1")
    made = Pair(folder, world, machines)
    yield made
    for path in (made.head, made.worker):
        subprocess.run(["rm", "-rf", str(path)], check=True)


def test_fetched_on_the_head_and_brought_to_the_worker_it_is_the_same(pair: Pair) -> None:
    """D9: `~` is each node's own home, whatever it is here."""
    hub = Hub(checkpoint())
    pair.world.patches.setenv("HF_ENDPOINT", hub.start())
    pair.world.patches.setenv("HOME", "/Users/me")
    try:
        assert pair.world.run("model", "fetch", "pair").exit == 0
    finally:
        hub.end()
    lacking = pair.world.run("model", "check", "pair")
    assert lacking.exit == 2
    assert f"node right: there is no folder {pair.worker}" in lacking.out
    done = pair.world.run("model", "sync", "pair")
    assert done.exit == 0, done.err
    assert held(pair.worker) == held(pair.head)
    checked = pair.world.done("model", "check", "pair", "--hashes")
    assert [it["revision"] for it in checked["nodes"]] == [COMMIT, COMMIT]
    again = pair.world.run("model", "sync", "pair")
    assert "nothing to do" in again.out


def test_another_revision_on_a_node_is_named(pair: Pair) -> None:
    """D9: a node with another revision than the head."""
    for folder, revision in ((pair.head, COMMIT), (pair.worker, "f" * 40)):
        told = json.dumps({"repository": REPOSITORY, "revision": revision, "files": []}).encode()
        pair.put({**checkpoint(), ".hallmark-model.json": told}, folder)
    found = pair.world.run("model", "check", "pair")
    assert found.exit == 2
    assert f"node right: is revision {'f' * 12}, left has {COMMIT[:12]}" in found.out


def test_files_that_differ_are_named_with_the_node(pair: Pair) -> None:
    """D9: file lists, sizes and, when asked, bytes are compared."""
    files = checkpoint()
    pair.put(files, pair.head)
    pair.put({**files, "more": b"", "config.json": b"{} "}, pair.worker)
    (pair.worker / SHARDS[0]).write_bytes(bytes(reversed(files[SHARDS[0]])))
    (pair.worker / "sub" / "notes é.txt").unlink()
    found = pair.world.run("model", "check", "pair").out
    assert "node right: lacks what left has: sub/notes é.txt" in found
    assert "node right: has what left lacks: more" in found
    assert "node right: has other sizes than left: config.json" in found
    assert "other bytes" not in found
    assert (
        f"node right: has other bytes than left: {SHARDS[0]}"
        in pair.world.run("model", "check", "pair", "--hashes").out
    )


def test_a_killed_sync_goes_on_and_ends_with_the_same_bytes(pair: Pair) -> None:
    files = checkpoint(1_500_000)
    pair.put(files, pair.head)
    parts = pair.worker / ".hallmark-parts"
    child = subprocess.Popen(
        pair.command("model", "sync"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    until(parts.is_dir)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()

    def done() -> bool:
        found = pair.world.run("model", "sync", "pair")
        # Busy until the one on the node has learned that nobody listens.
        assert found.exit in (0, 6), found.err
        return found.exit == 0

    until(done)
    there = held(pair.worker)
    assert {path: there[path] for path in files} == files
    assert not parts.exists()


def test_what_does_not_fit_is_refused_before_and_while_it_comes(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.put(checkpoint(5_000_000), pair.head)
    before = pair.world.run("model", "sync", "pair")
    assert before.exit == 2
    assert f"node right: {pair.worker}: " in before.err
    assert "are free" in before.err
    assert not pair.worker.exists()

    pair.put(checkpoint(3_000_000), pair.head)
    # Somebody else's file takes the room after it was looked at.
    filler = pair.disk / "filler"
    filler.write_bytes(b"\0" * 5_000_000)
    with monkeypatch.context() as patched:
        patched.setattr(ledger, "_SPARE", 0.0)
        full = pair.world.run("model", "sync", "pair")
    assert full.exit == 2, full.err
    assert "No space left on device" in full.err
    assert "it goes on there" in full.err
    filler.unlink()
    assert pair.world.run("model", "sync", "pair").exit == 0
    there = held(pair.worker)
    assert {name: there[name] for name in SHARDS} == {name: checkpoint(3_000_000)[name] for name in SHARDS}


def test_nobody_without_the_token_is_served(pair: Pair) -> None:
    import urllib.error
    import urllib.request

    from launch.nodes import model
    from launch.plan.place import Place

    pair.put(checkpoint(), pair.head)
    node = pair.nodes[0]
    place = Place("left", f"ssh://{node.address}:{node.port}")
    with model.serving(place, "~/models/tiny", node.address) as (base, token):
        for given, path, status in ((token, "config.json", 200), ("x", "config.json", 401), (token, "../../x", 404)):
            request = urllib.request.Request(base + path, headers={"Authorization": f"Bearer {given}"})
            try:
                with urllib.request.urlopen(request, timeout=5) as answer:
                    assert answer.status == status
            except urllib.error.HTTPError as error:
                assert error.code == status
