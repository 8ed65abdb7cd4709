"""The journal of a cluster: append-only lines, each holding the hash of the one before it.

It is written before each act, so that whoever comes after a crash knows how far the last one can have come.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from recipe.errors import Mismatch

_NOTHING = "0" * 64


class Event(StrEnum):
    """INTENT → STAGED → STOPPED → STARTED → COMMITTED, or RESTORED, or NEEDS-OPERATOR; CERTIFIED stands alone."""

    INTENT = "INTENT"
    STAGED = "STAGED"
    STOPPED = "STOPPED"
    STARTED = "STARTED"
    COMMITTED = "COMMITTED"
    RESTORED = "RESTORED"
    NEEDS_OPERATOR = "NEEDS-OPERATOR"
    CERTIFIED = "CERTIFIED"


@dataclass(frozen=True)
class Entry:
    """One line. `at` is UTC in ISO 8601; `operation` is the number of the INTENT that it belongs to."""

    seq: int
    prev: str
    at: str
    operation: int
    event: Event
    revision: int
    data: dict[str, Any]

    def line(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode() + b"\n"


class Journal:
    """The entries of one file. Errors: Mismatch when a line was changed, removed or put between others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self._last = _NOTHING
        lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
        # A crash in the middle of a write leaves a last line without its end; it never took effect.
        self._size = sum(len(line) for line in lines if line.endswith(b"\n"))
        for number, line in enumerate((line for line in lines if line.endswith(b"\n")), start=1):
            entry = self._read(line, number)
            if entry.prev != self._last or entry.seq != number:
                raise self._damaged(number, "does not follow the line before it")
            self.entries.append(entry)
            self._last = hashlib.sha256(line).hexdigest()

    def append(self, event: Event, revision: int, operation: int | None = None, **data: Any) -> Entry:
        """Write one entry durably; without `operation` it begins one of its own."""
        seq = len(self.entries) + 1
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = Entry(seq, self._last, at, operation or seq, event, revision, data)
        line = entry.line()
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.ftruncate(handle, self._size)
            os.lseek(handle, self._size, os.SEEK_SET)
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)
        self._size += len(line)
        self._last = hashlib.sha256(line).hexdigest()
        self.entries.append(entry)
        return entry

    def _read(self, line: bytes, number: int) -> Entry:
        try:
            values = json.loads(line)
            return Entry(**{**values, "event": Event(values["event"])})
        except (ValueError, TypeError, KeyError):
            raise self._damaged(number, "is not an entry") from None

    def _damaged(self, number: int, what: str) -> Mismatch:
        return Mismatch(
            f"the journal was edited or damaged: line {number} {what}",
            where=f"{self.path}:{number}",
            hint="compare it with a copy; nothing is done on a history that cannot be trusted",
        )
