"""Model files, from a StandIn of the hub onto this machine: resumed, verified, refused; and compared."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from launch.nodes import model
from launch.plan.place import Place
from recipe.config.paths import CHECKOUT
from recipe.errors import Unreachable
from tests.standin.hub import COMMIT, REPOSITORY, Hub
from tests.standin.world import World, until

SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


def checkpoint(size: int = 200_000) -> dict[str, bytes]:
    made = random.Random(1)
    index = json.dumps({"weight_map": {"a": SHARDS[0], "b": SHARDS[1], "c": SHARDS[1]}}).encode()
    weights = {name: made.randbytes(size) for name in SHARDS}
    return {"config.json": b"{}", "model.safetensors.index.json": index, "sub/notes é.txt": b"hello\n", **weights}


@pytest.fixture
def hub(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub(checkpoint())
    monkeypatch.setenv("HF_ENDPOINT", made.start())
    monkeypatch.delenv("HF_TOKEN", raising=False)
    world.profile("a", model=REPOSITORY, revision=COMMIT)
    yield made
    made.end()


@pytest.fixture
def folder(world: World) -> Path:
    return world.models / "tiny"


def held(folder: Path) -> dict[str, bytes]:
    # When files were written differs from folder to folder.
    paths = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".times")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_fetch_brings_every_file_and_says_first_how_much_that_is(world: World, hub: Hub, folder: Path) -> None:
    done = world.run("model", "fetch", "pair")
    assert done.exit == 0
    assert "5 files, 0.0 GB" in done.err
    assert "at 100 Mbit/s" in done.err
    there = held(folder)
    told = json.loads(there.pop(".hallmark-model.json"))
    assert json.loads((folder / ".hallmark-model.json.times").read_text()).keys() == hub.files.keys()
    assert there == hub.files
    assert told["revision"] == COMMIT
    assert hub.strangers == []
    again = world.done("model", "fetch", "pair")
    assert not again["changed"]
    # One was there with the right bytes before.
    assert len(hub.ranges) == len(hub.files) - 1
    assert world.done("model", "check", "pair")["valid"]


def test_a_dry_run_fetches_nothing(world: World, hub: Hub, folder: Path) -> None:
    assert world.done("model", "fetch", "pair", "--dry-run")["changed"]
    assert hub.ranges == []
    assert SHARDS[0] not in held(folder)


def test_the_token_goes_to_the_hub_alone_and_is_shown_nowhere(world: World, hub: Hub) -> None:
    hub.token = "hf_TESTtoken0123456789"
    denied = world.run("model", "fetch", "pair")
    assert denied.exit == 2
    assert "set HF_TOKEN" in denied.err
    world.patches.setenv("MY_TOKEN", hub.token)
    world.profile("a", model=REPOSITORY, revision=COMMIT, env={"HF_TOKEN": "env:MY_TOKEN"})
    done = world.run("model", "fetch", "pair", "--json")
    assert done.exit == 0
    assert hub.strangers == []
    assert "hf_TEST" not in done.out + done.err


def test_lost_connections_are_continued_where_they_broke(world: World, hub: Hub, folder: Path) -> None:
    hub.cut = {SHARDS[0]: [70_000, 50_000]}
    assert world.run("model", "fetch", "pair").exit == 0
    assert [start for path, start in hub.ranges if path == SHARDS[0]] == [0, 70_000, 120_000]
    assert held(folder)[SHARDS[0]] == hub.files[SHARDS[0]]


def test_a_killed_fetch_goes_on_behind_its_last_byte(world: World, hub: Hub, folder: Path) -> None:
    import threading

    hub.files = checkpoint(3_000_000)
    hub.gate = threading.Event()
    words = [str(Path(sys.executable).parent / "hallmark"), "--home", str(world.home), "model", "fetch", "pair"]
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    parts = folder / ".hallmark-parts"

    def begun() -> bool:
        return sum(path.stat().st_size for path in parts.glob("model-*")) >= 2_000_000

    until(begun)
    # The command, and not what it started: that one has to find out by itself.
    os.kill(child.pid, signal.SIGKILL)
    child.wait()

    def left() -> bool:
        return subprocess.run(["flock", "-n", str(parts / "lock"), "true"], check=False).returncode == 0

    until(left)
    hub.gate.set()
    hub.ranges.clear()
    assert world.run("model", "fetch", "pair").exit == 0
    assert all(start > 0 for path, start in hub.ranges if path in SHARDS)
    assert {path: content for path, content in held(folder).items() if path in hub.files} == hub.files


def test_a_folder_is_neither_the_old_revision_nor_whole_until_a_fetch_of_another_has_ended(
    world: World, hub: Hub, folder: Path
) -> None:
    assert world.run("model", "fetch", "pair").exit == 0
    hub.files = {**hub.files, "config.json": b"new", SHARDS[0]: hub.files[SHARDS[0]][::-1]}
    hub.wrong = SHARDS[0]
    # The same commit, so that the stand-in need not have two: what is told apart are the files.
    assert world.run("model", "fetch", "pair").exit == 4
    found = world.run("model", "check", "pair")
    assert (found.exit, f"what is fetched into {folder} is not all there" in found.out) == (2, True)
    assert "nothing says of which revision" in found.out
    hub.wrong = None
    hub.ranges.clear()
    assert world.run("model", "fetch", "pair").exit == 0
    assert SHARDS[1] not in [path for path, _ in hub.ranges]
    assert held(folder).items() >= hub.files.items()
    assert world.run("model", "check", "pair", "--hashes").exit == 0


def test_bytes_with_another_hash_are_thrown_away(world: World, hub: Hub, folder: Path) -> None:
    hub.wrong = SHARDS[1]
    done = world.run("model", "fetch", "pair")
    assert done.exit == 4
    assert SHARDS[1] in done.err
    assert SHARDS[1] not in held(folder)
    hub.wrong = None
    assert world.run("model", "fetch", "pair").exit == 0
    assert held(folder)[SHARDS[1]] == hub.files[SHARDS[1]]


def test_a_file_that_was_there_with_other_bytes_is_replaced(world: World, hub: Hub, folder: Path) -> None:
    (folder / SHARDS[0]).write_bytes(b"x" * len(hub.files[SHARDS[0]]))
    assert world.run("model", "fetch", "pair").exit == 0
    assert held(folder)[SHARDS[0]] == hub.files[SHARDS[0]]


def test_a_model_without_a_commit_is_refused_with_the_commit_to_write(world: World, hub: Hub) -> None:
    world.profile("a", model=REPOSITORY)
    done = world.run("model", "fetch", "pair")
    assert done.exit == 2
    assert f"write `revision: {COMMIT}`" in done.err
    assert hub.ranges == []
    world.profile("a", model=REPOSITORY, revision="main")
    moving = world.run("model", "fetch", "pair")
    assert moving.exit == 1
    assert "'main' may move" in moving.err


def test_too_little_disk_is_refused_before_anything_is_fetched(world: World, hub: Hub) -> None:
    hub.files = {"config.json": b"{}"}
    hub.sizes = {"config.json": 10**17}
    done = world.run("model", "fetch", "pair")
    assert done.exit == 2
    assert "are free" in done.err
    assert hub.ranges == []


def test_a_hub_that_is_not_there_is_unreachable(world: World, hub: Hub) -> None:
    world.patches.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    done = world.run("model", "fetch", "pair")
    assert done.exit == 5
    assert "does not answer" in done.err


def test_a_dangling_link_is_named_with_node_and_file(world: World, hub: Hub, folder: Path) -> None:
    """D9: links of the hub's own cache lead outside what a container gets."""
    assert world.run("model", "fetch", "pair").exit == 0
    blobs = world.models / "blobs"
    blobs.mkdir()
    (folder / SHARDS[0]).rename(blobs / "1")
    (folder / SHARDS[0]).symlink_to(blobs / "1")
    (folder / SHARDS[1]).unlink()
    (folder / SHARDS[1]).symlink_to("nowhere")
    found = world.run("model", "check", "pair")
    assert found.exit == 2
    for name, target in zip(SHARDS, (blobs / "1", folder / "nowhere"), strict=True):
        assert f"node left: {folder}/{name} leads to {target}, which is not in the folder" in found.out


def test_a_link_inside_the_folder_is_a_file(world: World, hub: Hub, folder: Path) -> None:
    assert world.run("model", "fetch", "pair").exit == 0
    (folder / SHARDS[0]).rename(folder / "other")
    (folder / SHARDS[0]).symlink_to("other")
    assert world.run("model", "check", "pair").exit == 0


def test_a_shard_of_the_index_that_is_not_there_is_named(world: World, hub: Hub, folder: Path) -> None:
    assert world.run("model", "fetch", "pair").exit == 0
    (folder / SHARDS[1]).unlink()
    found = world.run("model", "check", "pair", "--json")
    assert found.exit == 2
    assert f"lacks {SHARDS[1]}, which its index names" in found.document["problems"][0]


@pytest.mark.parametrize("case", sorted((CHECKOUT / "tests/cases/hub").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_a_hub_cannot_have_is_not_believed(world: World, hub: Hub, folder: Path, case: Path) -> None:
    told = yaml.safe_load(case.read_text())
    hub.listed = told["answer"]
    before = held(world.models)
    done = world.run("model", "fetch", "pair")
    assert done.exit == 4, done.err
    assert told["message"] in done.err
    assert held(world.models) == before
    assert hub.ranges == []


def test_a_file_whose_name_is_long_is_fetched(world: World, hub: Hub, folder: Path) -> None:
    name = "é" * 120
    hub.files[name] = b"long"
    assert world.run("model", "fetch", "pair").exit == 0
    assert held(folder)[name] == b"long"


@pytest.mark.parametrize("text", ["hf_SECRET\r\n\n", "hf_SECRET x", "hf_SECRET\nx", "hf_SECRET€"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(world: World, hub: Hub, text: str) -> None:
    path = world.home / "token"
    path.write_bytes(text.encode())
    world.profile("a", model=REPOSITORY, revision=COMMIT, env={"HF_TOKEN": f"file:{path}"})
    done = world.run("model", "fetch", "pair")
    # Ends of lines are no part of it.
    assert done.exit == (0 if text.strip() == "hf_SECRET" else 1)
    assert "SECRET" not in done.out + done.err


def test_check_compares_with_what_was_fetched(world: World, hub: Hub, folder: Path) -> None:
    assert world.run("model", "fetch", "pair").exit == 0
    (folder / SHARDS[0]).write_bytes(hub.files[SHARDS[0]][:1000])
    (folder / SHARDS[1]).write_bytes(bytes(reversed(hub.files[SHARDS[1]])))
    (folder / "sub/notes é.txt").unlink()
    found = world.run("model", "check", "pair").out
    assert f"has other sizes than were fetched: {SHARDS[0]} — remove it there" in found
    assert "lacks what was fetched: sub/notes é.txt" in found
    assert "other bytes" not in found
    assert f"has other bytes than were fetched: {SHARDS[1]}" in world.run("model", "check", "pair", "--hashes").out
    (folder / SHARDS[1]).unlink()
    assert world.run("model", "fetch", "pair").exit == 0
    assert world.run("model", "check", "pair", "--hashes").exit == 0


@pytest.mark.parametrize("path", [SHARDS[0], "config.json"])
def test_a_file_of_the_right_size_with_other_bytes_is_noticed_and_fetched_again(
    world: World, hub: Hub, folder: Path, path: str
) -> None:
    """config.json is small: the hub knows no sha256 of it, only git's sha1."""
    assert world.run("model", "fetch", "pair").exit == 0
    (folder / path).write_bytes(b"x" * len(hub.files[path]))
    note = f"note: left: {path} in {folder}: written after the bytes were found right"
    assert note in world.run("model", "check", "pair").out
    assert f"has other bytes than were fetched: {path}" in world.run("model", "check", "pair", "--hashes").out
    done = world.run("model", "fetch", "pair")
    assert (done.exit, "1 files were written since their bytes were right" in done.err) == (0, True), done.err
    assert (folder / path).read_bytes() == hub.files[path]
    assert note not in world.run("model", "check", "pair").out


def test_a_file_that_was_only_touched_is_read_once_and_not_fetched(world: World, hub: Hub, folder: Path) -> None:
    assert world.run("model", "fetch", "pair").exit == 0
    hub.ranges.clear()
    os.utime(folder / SHARDS[0])
    assert "fetched and verified" in world.run("model", "fetch", "pair").out
    done = world.run("model", "fetch", "pair")
    assert ("nothing to do" in done.out, "`hallmark model check --hashes` reads them again" in done.err) == (True, True)
    assert hub.ranges == []


def test_bytes_that_a_disk_changed_are_found_by_reading_all(world: World, hub: Hub, folder: Path) -> None:
    assert world.run("model", "fetch", "pair").exit == 0
    before = (folder / "config.json").stat()
    (folder / "config.json").write_bytes(b"[]")
    os.utime(folder / "config.json", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert world.run("model", "check", "pair").exit == 0
    assert "has other bytes than were fetched: config.json" in world.run("model", "check", "pair", "--hashes").out


@pytest.mark.parametrize(
    "text",
    [
        '{"weight_map": {"a": 1, "b": [2]}}',
        pytest.param("[" * 200_000, id="deep"),
        "",
        '{"weight_map": {"a": "\\u001b[31m"}}',
    ],
)
def test_an_index_that_nobody_can_load_is_wrong(world: World, hub: Hub, folder: Path, text: str) -> None:
    hub.files["model.safetensors.index.json"] = text.encode()
    assert world.run("model", "fetch", "pair").exit == 0
    found = world.run("model", "check", "pair")
    assert found.exit == 2
    assert "its index names" in found.out
    assert "\x1b" not in found.out


@pytest.mark.parametrize("text", ["[]", '{"files": [1], "revision": 3}', pytest.param("[" * 200_000, id="deep")])
def test_a_note_that_cannot_be_read_is_as_none(world: World, hub: Hub, folder: Path, text: str) -> None:
    assert world.run("model", "fetch", "pair").exit == 0
    (folder / ".hallmark-model.json").write_text(text)
    assert "nothing says of which revision" in world.run("model", "check", "pair").out
    assert world.run("model", "fetch", "pair").exit == 0
    assert "nothing says of which revision" not in world.run("model", "check", "pair").out


def test_a_name_of_several_lines_is_no_file_of_the_model(world: World, hub: Hub, folder: Path) -> None:
    assert world.run("model", "fetch", "pair").exit == 0
    (folder / "x\nfile\tabc").write_bytes(b"")
    (folder / "x\u2028file").write_bytes(b"")
    assert world.done("model", "check", "pair")["nodes"][0]["files"] == len(hub.files) + 1


def test_a_folder_that_the_head_lacks_is_fetched_and_not_synced(world: World, hub: Hub, folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    found = world.run("model", "check", "pair")
    assert f"there is no folder {folder} — `hallmark model fetch` brings it" in found.out


def test_a_node_without_python_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    here = Place("here", "local")
    many = [{"path": str(number), "size": 1, "sha256": "0" * 64} for number in range(10_000)]
    for ask in (
        lambda: model.state(here, str(tmp_path), {"files": many}),
        lambda: model.serving(here, str(tmp_path), "127.0.0.1").__enter__(),
    ):
        with pytest.raises(Unreachable, match=r"node here: .*python3"):
            ask()
