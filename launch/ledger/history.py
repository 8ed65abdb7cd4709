"""The history of a cluster: its numbered revisions and what runs now, computed from the journal alone."""

from dataclasses import dataclass
from typing import Any

from launch.group.journal import Entry, Event

TERMINAL = (Event.COMMITTED, Event.RESTORED, Event.NEEDS_OPERATOR)


@dataclass
class Revision:
    """One launch or rollback. `subject` is {kind, reference, patchset, digest}; `restores` the revision that a
    rollback brings back; `state` the last event, in small letters; `certificate` a file name."""

    number: int
    kind: str
    profile: str
    hardware: str
    subject: dict[str, Any]
    restores: int | None
    old: int | None
    state: str
    at: str
    who: str
    why: str | None
    certificate: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "image": self.subject["reference"],
            "profile": self.profile,
            "patchset": self.subject["patchset"],
            "digest": self.subject["digest"],
            "certified": self.certificate is not None,
            "restores": self.restores,
            "state": self.state,
            "at": self.at,
            "who": self.who,
            "why": self.why,
        }


@dataclass
class History:
    """`running`: the revision that should serve now; `unfinished`: the one whose launch never came to an end."""

    revisions: dict[int, Revision]
    running: int | None
    unfinished: int | None

    @property
    def next(self) -> int:
        return max(self.revisions, default=0) + 1


def history(entries: list[Entry]) -> History:
    """Fold the journal's entries."""
    found = History({}, None, None)
    stops: set[int] = set()
    for entry in entries:
        if entry.event is Event.INTENT and entry.data["kind"] == "stop":
            stops.add(entry.seq)
        elif entry.event is Event.INTENT:
            data = entry.data
            found.revisions[entry.revision] = Revision(
                entry.revision,
                data["kind"],
                data["profile"],
                data["hardware"],
                data["subject"],
                data["restores"],
                data["old"],
                "intent",
                entry.at,
                data["who"],
                data["why"],
            )
            found.unfinished = entry.revision
        elif entry.operation in stops:
            if entry.event is Event.STOPPED:
                found.running = found.unfinished = None
        elif entry.event is Event.CERTIFIED:
            digest = entry.data["digest"]
            for revision in found.revisions.values():
                if revision.subject["digest"] == digest:
                    revision.certificate = entry.data["certificate"]
        else:
            revision = found.revisions[entry.revision]
            revision.state = entry.event.value.lower()
            if entry.event is Event.COMMITTED:
                found.running = entry.revision
            if entry.event in (Event.COMMITTED, Event.RESTORED):
                found.unfinished = None
    for revision in found.revisions.values():
        if revision.certificate is None:
            known = [
                r
                for r in found.revisions.values()
                if r.certificate and r.subject["digest"] == revision.subject["digest"]
            ]
            revision.certificate = known[0].certificate if known else None
    return found
