"""The journal: durable, chained, and honest about its end."""

import json
import os
from pathlib import Path

import pytest

from launch.group.journal import Event, Journal
from recipe.errors import Mismatch, Refused


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of three entries: two of the first operation, one that begins the second."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    first = journal.append(Event.INTENT, 1, kind="launch")
    journal.append(Event.STAGED, 1, first.operation)
    journal.append(Event.INTENT, 2, kind="launch")
    return path


def test_what_is_appended_is_read_back(path: Path) -> None:
    entries = Journal(path).entries
    assert [(e.seq, e.operation, e.event, e.revision) for e in entries] == [
        (1, 1, "INTENT", 1),
        (2, 1, "STAGED", 1),
        (3, 3, "INTENT", 2),
    ]
    assert entries[1].prev == entries[0].sha256
    assert entries[0].data == {"kind": "launch"}
    assert Journal(path.with_name("none")).entries == []


def test_only_its_owner_may_read_it(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("line", "change", "says"),
    [
        (0, lambda line: line.replace(b"launch", b"landed"), "line 1 is not what was written"),
        (2, lambda line: line.replace(b"launch", b"landed"), "line 3 is not what was written"),
        (1, lambda line: b"", "line 2 does not follow the line before it"),
        (0, lambda line: line + line, "line 2 does not follow the line before it"),
        (1, lambda line: b"\n", "line 2 is not an entry"),
        (1, lambda line: b"[]\n", "line 2 is not an entry"),
        (1, lambda line: b'"x"\n', "line 2 is not an entry"),
        (1, lambda line: b"{}\n", "line 2 is not an entry"),
        (1, lambda line: b"\xff\n", "line 2 is not an entry"),
    ],
)
def test_a_changed_line_is_found(path: Path, line: int, change: object, says: str) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line] = change(lines[line])  # type: ignore[operator]
    path.write_bytes(b"".join(lines))
    with pytest.raises(Mismatch, match=says) as found:
        Journal(path)
    assert str(path) in str(found.value)


def test_a_torn_last_line_never_took_effect_and_is_written_over(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])
    journal = Journal(path)
    assert len(journal.entries) == 2
    journal.append(Event.STOPPED, 1, 1)
    assert [entry.event for entry in Journal(path).entries] == ["INTENT", "STAGED", "STOPPED"]


def test_what_cannot_be_written_leaves_the_journal_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    journal = Journal(path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(Refused, match="the journal cannot be written: No space left on device"):
            journal.append(Event.STAGED, 2, 3)
    assert path.read_bytes() == before
    journal.append(Event.STAGED, 2, 3)
    assert json.loads(path.read_bytes().splitlines()[-1])["seq"] == 4
