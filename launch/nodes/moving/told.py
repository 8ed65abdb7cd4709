"""What the program tells whoever started it: one JSON value a line on standard output."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

TELL_SECONDS = 0.5
Json = dict[str, Any]


class Failed(Exception):
    """Ends the program; `kind`: mismatch, refused, unreachable or busy."""

    def __init__(self, kind: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind, self.hint = kind, hint


class Told:
    """Counts bytes and tells how far it is, not too often."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self._lock = threading.Lock()
        self._next = 0.0

    def add(self, count: int) -> None:
        with self._lock:
            self.done += count

    def now(self) -> None:
        with self._lock:
            if time.monotonic() >= self._next or self.done == self.total:
                self._next = time.monotonic() + TELL_SECONDS
                tell({"done": self.done, "total": self.total})


def tell(value: Json) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
