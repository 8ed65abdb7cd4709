"""The journal: durable, chained, and honest about its end."""

from pathlib import Path

import pytest

from launch.group.journal import Event, Journal
from recipe.errors import Mismatch, Refused


def opened(path: Path) -> Journal:
    """A journal whose lines are written plainly; launch.nodes.records writes them durably."""

    def write(size: int, line: bytes) -> None:
        before = path.read_bytes()[:size] if path.exists() else b""
        path.write_bytes(before + line)

    return Journal(path, write)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of three entries: two of the first operation, one that begins the second."""
    path = tmp_path / "journal.jsonl"
    journal = opened(path)
    first = journal.append(Event.INTENT, 1, kind="launch")
    journal.append(Event.STAGED, 1, first.operation)
    journal.append(Event.INTENT, 2, kind="launch")
    return path


def test_what_is_appended_is_read_back(path: Path) -> None:
    entries = opened(path).entries
    assert [(e.seq, e.operation, e.event, e.revision) for e in entries] == [
        (1, 1, "INTENT", 1),
        (2, 1, "STAGED", 1),
        (3, 3, "INTENT", 2),
    ]
    assert entries[1].prev == entries[0].sha256
    assert entries[0].data == {"kind": "launch"}
    assert opened(path.with_name("none")).entries == []


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
        opened(path)
    assert str(path) in str(found.value)


def test_a_torn_last_line_never_took_effect_and_is_written_over(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])
    journal = opened(path)
    assert len(journal.entries) == 2
    journal.append(Event.STOPPED, 1, 1)
    assert [entry.event for entry in opened(path).entries] == ["INTENT", "STAGED", "STOPPED"]


def test_what_cannot_be_written_did_not_take_effect(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    journal = opened(path)

    def full(size: int, line: bytes) -> None:
        raise Refused("the journal cannot be written: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(journal, "_write", full)
        with pytest.raises(Refused, match="the journal cannot be written: No space left on device"):
            journal.append(Event.STAGED, 2, 3)
    assert path.read_bytes() == before
    assert journal.append(Event.STAGED, 2, 3).seq == 4


def test_a_write_that_is_interrupted_is_finished_before_anything_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(path)
    real, calls = journal._write, 0

    def interrupted(size: int, line: bytes) -> None:
        nonlocal calls
        calls += 1
        real(size, line)
        if calls == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(journal, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        journal.append(Event.STAGED, 2, 3)
    journal.append(Event.STOPPED, 2, 3)
    assert [entry.event for entry in opened(path).entries[3:]] == ["STAGED", "STOPPED"]
