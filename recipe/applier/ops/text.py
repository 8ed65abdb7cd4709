"""text: exact bytes with a count, for files that are not Python and as a last resort."""

from __future__ import annotations

import difflib
from typing import Any

from ..errors import Candidate, Drift
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
        region = self._region(source)[1]
        old, new = self._bytes(source)
        if new in old and old in region:
            return False
        return region.count(new) == self.count and old not in region.replace(new, b"\0")

    def edit(self, source: Source) -> Edit:
        start, region = self._region(source)
        old, new = self._bytes(source)
        places = _places(region, old)
        if len(places) != self.count:
            kind = "partial" if places else "anchor"
            message = f"{self.spec['old']!r} stands {len(places)} times in {self.where}, not {self.count}"
            raise Drift(kind, message, self._nearest(source, start, region, places))
        return Edit([Splice(start + at, start + at + len(old), new) for at in places])

    def _bytes(self, source: Source) -> tuple[bytes, bytes]:
        return source.encode(self.spec["old"]), source.encode(self.spec["new"])

    def _nearest(self, source: Source, start: int, region: bytes, places: list[int]) -> Candidate:
        first = source.line_of(start)
        if places:
            return source.candidate_at(source.line_of(start + places[0]), self.where)
        wanted = self.spec["old"].strip().partition("\n")[0]
        lines = region.decode("utf-8").split("\n")
        ratios = [difflib.SequenceMatcher(None, wanted, line.strip()).ratio() for line in lines]
        return source.candidate_at(first + ratios.index(max(ratios)), self.where)

    def _region(self, source: Source) -> tuple[int, bytes]:
        if self.where == MODULE:
            return 0, source.data
        start, end = source.span(self.scope(source))
        return start, source.data[start:end]


def _places(region: bytes, old: bytes) -> list[int]:
    places, at = [], region.find(old)
    while at >= 0:
        places.append(at)
        at = region.find(old, at + len(old))
    return places
