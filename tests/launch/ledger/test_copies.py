"""What was taken from a journal, or written anew into it, shows in its copies; the head is a folder of this machine."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.group.journal import Entry, Event, departs, sound
from launch.ledger.store import Store
from launch.nodes import ssh
from launch.nodes.lock import locked
from recipe.errors import Mismatch
from tests.standin.world import World


def entries(count: int) -> list[bytes]:
    found: list[bytes] = []
    last = "0" * 64
    for seq in range(1, count + 1):
        entry = Entry(seq, last, "2026-12-01T00:00:00.000+00:00", 1, Event.STAGED, 1, {"n": seq})
        found.append(entry.line())
        last = entry.sha256
    return found


def rewritten(lines: list[bytes], place: int) -> bytes:
    """The journal with one entry edited and every hash behind it made anew, as a careful forger would."""
    last, out = "0" * 64, []
    for number, line in enumerate(lines):
        values = json.loads(line)
        del values["sha256"]
        values["prev"] = last
        if number == place:
            values["data"] = {"n": "edited"}
        entry = Entry(**{**values, "event": Event(values["event"])})
        out.append(entry.line())
        last = entry.sha256
    return b"".join(out)


def test_a_journal_goes_on_from_what_was_seen_of_it() -> None:
    lines = entries(4)
    whole = b"".join(lines)
    assert departs(whole, b"".join(lines[:2])) is None
    assert departs(whole, whole) is None
    # What was torn off in the middle was never written.
    assert departs(whole, whole + b'{"torn') is None
    assert departs(b"".join(lines[:2]), whole) == 3
    assert departs(b"", whole) == 1
    assert departs(rewritten(lines, 1), whole) == 2


def test_an_edited_line_of_a_copy_is_found_and_a_forged_chain_is_whole() -> None:
    lines = entries(4)
    assert sound(b"".join(lines)) is None
    assert sound(rewritten(lines, 1)) is None
    for number in range(4):
        changed = list(lines)
        changed[number] = changed[number].replace(b'"n":', b'"m":')
        assert sound(b"".join(changed)) == number + 1
    assert sound(b"".join(lines[1:])) == 1


@pytest.fixture
def launched(world: World) -> World:
    world.brief_trials()
    world.done("launch", "pair")
    return world


def test_every_byte_of_the_history_is_guarded(launched: World) -> None:
    """Whatever byte is changed, the line is named or, for the end of the last line, that it is gone."""
    path = launched.store().folder / "journal.jsonl"
    original = path.read_bytes()
    for place in range(len(original)):
        changed = bytearray(original)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(Mismatch) as refused:
            launched.store().journal()
        number = original.count(b"\n", 0, place) + 1
        assert f"line {number} " in str(refused.value), (place, str(refused.value))
    path.write_bytes(original)
    assert launched.store().journal().entries


def test_entries_that_were_cut_off_or_forged_show_in_what_this_machine_has_seen(launched: World) -> None:
    path = launched.store().folder / "journal.jsonl"
    original = path.read_bytes()
    lines = original.splitlines(keepends=True)
    for content, says in (
        (b"".join(lines[:-1]), "it ends with line 4, line 5 is only in the copy on this machine"),
        (lines[0], "it ends with line 1, line 2 is only in the copy on this machine"),
        (original[:-1], "it ends with line 4, line 5 is only in the copy on this machine"),
        (rewritten(lines, 2), "line 3 is another than in the copy on this machine"),
    ):
        path.write_bytes(content)
        for words in (("status", "pair"), ("launch", "pair"), ("history", "pair")):
            result = launched.run(*words)
            assert result.exit == 4
            assert f"the journal was edited, or lost entries: {says}" in result.err
    path.write_bytes(original)
    assert launched.done("status", "pair")["state"] == "running"


@pytest.fixture
def two(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Store]:
    """The records of a cluster whose second node is reached by a StandIn of ssh; by controller."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor word; do last=$word; done\nexport HOME="${0%/bin/ssh}"\nexec sh -c "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.delenv(ssh.VARIABLE, raising=False)
    listed = [
        {"name": name, "address": address, "fabric": fabric}
        for name, address, fabric in (("left", "me@left", "192.0.2.1"), ("right", "me@right", "192.0.2.2"))
    ]
    paths = {"state": "~/node", "models": str(world.models)}
    world.cluster(engine="docker", nodes=listed, paths=paths)

    def at(controller: str) -> Store:
        monkeypatch.setenv("HALLMARK_STATE", str(tmp_path / controller))
        ssh._sockets.cache_clear()
        return world.store()

    return at


def written(store: Store, count: int) -> None:
    with locked(store.lock, "launch"):
        journal = store.journal()
        store.owner()
        for _ in range(count):
            journal.append(Event.STAGED, 1)


def test_a_head_that_was_cut_off_or_forged_is_told_by_the_copies_of_other_nodes_to_who_never_saw_it(
    two: Callable[[str], Store], tmp_path: Path
) -> None:
    first = two("first")
    written(first, 4)
    head = tmp_path / "node" / "clusters" / "pair" / "journal.jsonl"
    [copy] = (tmp_path / "node" / "copies").glob("pair-*/journal.jsonl")
    original = head.read_bytes()
    assert copy.read_bytes() == original
    lines = original.splitlines(keepends=True)
    for content, says in (
        (b"".join(lines[:2]), "it ends with line 2, line 3 is only in the copy on right"),
        (rewritten(lines, 1), "line 2 is another than in the copy on right"),
    ):
        head.write_bytes(content)
        second = two("never-seen")
        assert len(second.journal().entries) in (2, 4)
        with pytest.raises(Mismatch, match=says):
            second.compare()
        shutil.rmtree(tmp_path / "never-seen")
        # Who has seen it knows without any copy.
        with pytest.raises(Mismatch, match=r"does not go on from what was seen here before, in .*: line \d is another"):
            two("first").journal()
    head.write_bytes(original)
    assert len(two("first").journal().entries) == 4


def test_a_copy_that_was_edited_is_told_of_and_replaced_with_the_next_entry(
    two: Callable[[str], Store], world: World, tmp_path: Path
) -> None:
    written(two("first"), 3)
    [copy] = (tmp_path / "node" / "copies").glob("pair-*/journal.jsonl")
    good = copy.read_bytes()
    copy.write_bytes(good.replace(b'"revision":1', b'"revision":2', 1))
    told: list[str] = []
    store = Store(world.loaded(), told.append)
    written(store, 1)
    [warning] = told
    assert warning.startswith("warning: the copy of the history on right (~/node/copies/pair-")
    assert warning.endswith(") was edited or damaged: line 1")
    assert copy.read_bytes().startswith(good)
