"""text: exact bytes with a count, for files that are not Python and as a last resort."""

from __future__ import annotations

from typing import Any

from ..errors import Drift
from ..source import MODULE, Source
from .base import Edit, Operation, Splice


class Text(Operation):
    """`old`, `new`, `count` (how many times `old` must stand there), optional `in`."""

    structural = False

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        self.count: int = spec["count"]

    def sought(self) -> str:
        return f"{self.spec['old']!r} {self.count} times in {self.where}"

    def done(self, source: Source) -> bool:
        return self._done(self._region(source)[1], source.newline)

    def edit(self, source: Source) -> Edit:
        start, region = self._region(source)
        old, new = self._bytes(source.newline)
        places = _places(region, old)
        if len(places) != self.count:
            kind = "partial" if places else "anchor"
            raise Drift(kind, f"{self.spec['old']!r} stands {len(places)} times in {self.where}, not {self.count}")
        return Edit([Splice(start + at, start + at + len(old), new) for at in places])

    def _done(self, region: bytes, newline: bytes) -> bool:
        old, new = self._bytes(newline)
        without = region.replace(new, b"\0") if new else region
        return bool(new) and region.count(new) == self.count and old not in without

    def _bytes(self, newline: bytes) -> tuple[bytes, bytes]:
        old, new = (self.spec[key].encode().replace(b"\n", newline) for key in ("old", "new"))
        return old, new

    def _region(self, source: Source) -> tuple[int, bytes]:
        if self.where == MODULE:
            return 0, source.data
        start, end = source.span(source.scope(self.where))
        return start, source.data[start:end]


def _places(region: bytes, old: bytes) -> list[int]:
    places, at = [], region.find(old)
    while at >= 0:
        places.append(at)
        at = region.find(old, at + len(old))
    return places
