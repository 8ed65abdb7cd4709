"""The journal of a cluster: append-only lines, each holding its own hash and that of the line before it.

It is written before each act, so that whoever comes after a crash knows how far the last one can have come.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from recipe.errors import Mismatch

_NOTHING = "0" * 64


class Event(StrEnum):
    """INTENT → STAGED → STOPPED → STARTED → COMMITTED, or RESTORED, or NEEDS-OPERATOR; the others stand alone."""

    INTENT = "INTENT"
    STAGED = "STAGED"
    STOPPED = "STOPPED"
    STARTED = "STARTED"
    COMMITTED = "COMMITTED"
    RESTORED = "RESTORED"
    NEEDS_OPERATOR = "NEEDS-OPERATOR"
    CERTIFIED = "CERTIFIED"
    LOCK_BROKEN = "LOCK-BROKEN"
    ADOPTED = "ADOPTED"
    # Of a watch: the same revision once more.
    RESTARTING = "RESTARTING"
    RESTARTED = "RESTARTED"
    NOT_RESTARTED = "NOT-RESTARTED"
    GAVE_UP = "GAVE-UP"


Write = Callable[[int, bytes], None]
"""Writes a line durably behind so many bytes of the file; what it did already, it finds done. An error says that it is
not written."""


@dataclass(frozen=True)
class Entry:
    """One line. `at` is UTC in ISO 8601; `operation` is the number of the INTENT that it belongs to; `prev` and
    `sha256` are hex, over the line's text without its own."""

    seq: int
    prev: str
    at: str
    operation: int
    event: Event
    revision: int
    data: dict[str, Any]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(_json(asdict(self))).hexdigest()

    def line(self) -> bytes:
        return _json(asdict(self) | {"sha256": self.sha256}) + b"\n"


class Journal:
    """The entries of one file, and its whole lines as `content`. `write` puts a line where the journal is kept;
    `where` is that place, for messages.

    Errors: Mismatch when a line was changed, removed or put between others.
    """

    def __init__(self, path: Path, write: Write, where: str | None = None) -> None:
        self.where = where or str(path)
        self.entries: list[Entry] = []
        self._write = write
        self._last = _NOTHING
        lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
        # A crash in the middle of a write leaves a last line without its end; it never took effect.
        whole = [line for line in lines if line.endswith(b"\n")]
        self.content = b"".join(whole)
        self._size = len(self.content)
        for number, line in enumerate(whole, start=1):
            entry = self._read(line, number)
            if entry.prev != self._last or entry.seq != number:
                raise self._damaged(number, "does not follow the line before it")
            self.entries.append(entry)
            self._last = entry.sha256

    def append(self, event: Event, revision: int, operation: int | None = None, **data: Any) -> Entry:
        """Write one entry durably; without `operation` it begins one of its own.

        Errors: those of `write`; it did not take effect then.
        """
        seq = len(self.entries) + 1
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = Entry(seq, self._last, at, operation or seq, event, revision, data)
        line = entry.line()
        try:
            self._write(self._size, line)
        except KeyboardInterrupt:
            # It may be written or not; what comes after it must know.
            self._write(self._size, line)
            self._add(entry, line)
            raise
        self._add(entry, line)
        return entry

    def _add(self, entry: Entry, line: bytes) -> None:
        self._size += len(line)
        self.content += line
        self._last = entry.sha256
        self.entries.append(entry)

    def _read(self, line: bytes, number: int) -> Entry:
        try:
            return _entry(line)
        except ValueError as error:
            raise self._damaged(number, str(error)) from None

    def _damaged(self, number: int, what: str) -> Mismatch:
        return Mismatch(
            f"the journal was edited or damaged: line {number} {what}",
            where=f"{self.where}:{number}",
            hint="compare it with a copy; nothing is done on a history that cannot be trusted",
        )


def departs(content: bytes, seen: bytes) -> int | None:
    """The first line at which a journal is no continuation of what was `seen` of it; None when it is one."""
    ours, theirs = content.splitlines(), seen[: seen.rfind(b"\n") + 1].splitlines()
    return next(
        (number for number, line in enumerate(theirs, start=1) if len(ours) < number or ours[number - 1] != line), None
    )


def sound(content: bytes) -> int | None:
    """The first line of a journal's text that was edited; None when it is whole."""
    last = _NOTHING
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            entry = _entry(line)
        except ValueError:
            return number
        if (entry.prev, entry.seq) != (last, number):
            return number
        last = entry.sha256
    return None


def _entry(line: bytes) -> Entry:
    """The entry of a line. Errors: ValueError with what is wrong with the line."""
    try:
        values = json.loads(line)
        claimed = values.pop("sha256")
        entry = Entry(**{**values, "event": Event(values["event"])})
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError("is not an entry") from None
    if entry.sha256 != claimed:
        raise ValueError("is not what was written")
    return entry


def _json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()
