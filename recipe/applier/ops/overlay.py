"""overlay: a whole new file, or one that replaces a file named by its sha256."""

from __future__ import annotations

import hashlib
from typing import Any

from ..errors import Drift
from ..source import BOM, Source
from .base import Operation


class Overlay(Operation):
    """`content` (text), optional `replaces` [sha256 of a file that may be there already]."""

    structural = False

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        self.content: bytes = spec["content"].encode("utf-8")
        if self.content.startswith(BOM):
            raise Drift("syntax", "the overlay begins with a mark of byte order; save it without one")

    def sought(self) -> str:
        return "no file of this name, or one of the files that the overlay may replace"

    def done(self, source: Source) -> bool:
        return source.data == self.content

    def allows(self, present: bytes) -> None:
        """Errors: Drift(conflict) when a file is there that the overlay does not name."""
        digest = hashlib.sha256(present).hexdigest()
        if digest not in self.spec.get("replaces", []):
            raise Drift("conflict", f"a file is already there (sha256 {digest}); name it in `replaces` to replace it")
