"""The history of a cluster: its numbered revisions and what runs now, computed from the journal alone."""

from dataclasses import dataclass, field
from typing import Any

from launch.group.journal import Entry, Event

# What a watch writes; it changes no revision.
WATCHED = (Event.RESTARTING, Event.RESTARTED, Event.NOT_RESTARTED, Event.GAVE_UP)


@dataclass
class Revision:
    """One launch, rollback or adoption. `operation` is the number of its INTENT or ADOPTED; `subject` is {kind,
    reference, patchset, venv, digest}; `plan` and `profile_sha256` are sha256 in hex of the plan's and the profile's
    files; `restores` the revision that a rollback brings back; `state` the last event, in small letters;
    `certificate` a file name with the `certificate_sha256` (hex) of what was written; `image` REPO@sha256:HEX, under
    which it was certified in a registry; `patches` the ids that the image or environment was patched with, None where
    that is not known; `events` is all that the journal says of it, oldest first."""

    number: int
    operation: int
    kind: str
    profile: str
    profile_sha256: str
    hardware: str
    plan: str
    subject: dict[str, Any]
    restores: int | None
    old: int | None
    state: str
    at: str
    who: str
    why: str | None
    certificate: str | None = None
    certificate_sha256: str | None = None
    image: str | None = None
    patches: list[str] | None = None
    events: list[Entry] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "image": self.subject["reference"],
            "profile": self.profile,
            "patchset": self.subject["patchset"],
            "digest": self.subject["digest"],
            "certified": self.certificate is not None,
            "restores": self.restores,
            "old": self.old,
            "state": self.state,
            "at": self.at,
            "who": self.who,
            "why": self.why,
            "events": [{"at": it.at, "event": it.event.value, **_told(it)} for it in self.events],
        }


@dataclass
class History:
    """`running`: the revision that should serve now; `unfinished`: the one whose launch never came to an end; `broken`:
    the locks that were broken, as {at, who, held} with the owners by node; `certified`: by profile the revision that
    was certified last, which is what the profile's certified tag means; `restarts`: what a watch did, as {at, event,
    revision} with its reason; `stopping`: a stop was begun last, and not ended."""

    revisions: dict[int, Revision]
    running: int | None
    unfinished: int | None
    broken: list[dict[str, Any]] = field(default_factory=list)
    certified: dict[str, int] = field(default_factory=dict)
    restarts: list[dict[str, Any]] = field(default_factory=list)
    stopping: bool = False

    @property
    def next(self) -> int:
        return max(self.revisions, default=0) + 1


def history(entries: list[Entry]) -> History:
    """Fold the journal's entries."""
    found = History({}, None, None)
    stops: set[int] = set()
    certificates: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in entries:
        found.stopping = entry.event is Event.INTENT and entry.data["kind"] == "stop"
        if entry.event is Event.INTENT and entry.data["kind"] == "stop":
            stops.add(entry.seq)
        elif entry.event in (Event.INTENT, Event.ADOPTED):
            data = entry.data
            found.revisions[entry.revision] = Revision(
                number=entry.revision,
                operation=entry.operation,
                kind=data["kind"],
                profile=data["profile"],
                profile_sha256=data["profile_sha256"],
                hardware=data["hardware"],
                plan=data["plan"],
                subject=data["subject"],
                restores=data["restores"],
                old=data["old"],
                state=entry.event.value.lower(),
                at=entry.at,
                who=data["who"],
                why=data["why"],
                patches=data.get("patches"),
            )
            if entry.event is Event.ADOPTED:
                # What was found running needs no further step.
                found.running = entry.revision
            else:
                found.unfinished = entry.revision
        elif entry.event in WATCHED:
            seen = {"at": entry.at, "event": entry.event.value.lower(), "revision": entry.revision}
            found.restarts.append({**seen, **entry.data})
        elif entry.event is Event.LOCK_BROKEN:
            found.broken.append({"at": entry.at, **entry.data})
        elif entry.operation in stops:
            if entry.event is Event.STOPPED:
                found.running = found.unfinished = None
        elif entry.event is Event.CERTIFIED:
            revision = found.revisions[entry.revision]
            certificates[_proven(revision)] = entry.data
            found.certified[revision.profile] = entry.revision
        else:
            revision = found.revisions[entry.revision]
            revision.state = entry.event.value.lower()
            if entry.event is Event.COMMITTED:
                found.running = entry.revision
            if entry.event is Event.RESTORED:
                # Also behind a COMMITTED that was interrupted before the command could end.
                found.running = revision.old
            if entry.event in (Event.COMMITTED, Event.RESTORED):
                found.unfinished = None
        if entry.event is not Event.LOCK_BROKEN and entry.revision in found.revisions:
            found.revisions[entry.revision].events.append(entry)
    for revision in found.revisions.values():
        if (proof := certificates.get(_proven(revision))) is not None:
            revision.certificate, revision.certificate_sha256 = proof["certificate"], proof.get("sha256")
            revision.image = proof.get("image")
    return found


def _told(entry: Entry) -> dict[str, Any]:
    """What an event says beside its name; who and why are the revision's, but for another command's."""
    parts = ("reason", "nodes", "certificate", "image") + (("who", "kind") if entry.event is Event.INTENT else ())
    return {part: entry.data[part] for part in parts if entry.data.get(part) is not None}


def _proven(revision: Revision) -> tuple[str, str]:
    """What a certificate is about: the same environment with other arguments was not tested."""
    return revision.subject["digest"], revision.plan
