"""What a cluster may still return to, and what must be kept for that. Pure: the history says it all."""

from collections.abc import Iterator
from dataclasses import dataclass

from launch.ledger.history import History, Revision


@dataclass(frozen=True)
class Kept:
    """What must stay: `digest` is sha256:HEX of an image's configuration (or of an environment, by `kind`); `manifest`
    is REPO@sha256:HEX, the name under which a certified image is in a registry, when it was put there; `revision` the
    newest one that needs it; `reasons` why, each a few words."""

    kind: str
    digest: str
    manifest: str | None
    revision: int
    reasons: tuple[str, ...]


def kept(past: History) -> dict[str, Kept]:
    """By digest, every image and environment to which the cluster may still return.

    That is what is certified (whoever signed it: a key's word may count again elsewhere), what runs or was begun, and
    what ran before that, which an automatic restore or a person goes back to.
    """
    found: dict[str, Kept] = {}
    for revision, reason in _needed(past):
        digest = f"sha256:{revision.subject['digest']}"
        known = found.get(digest)
        reasons = dict.fromkeys([*(known.reasons if known else ()), f"revision {revision.number} {reason}"])
        manifest = revision.image or (known.manifest if known else None)
        number = max(revision.number, known.revision if known else 0)
        found[digest] = Kept(revision.subject["kind"], digest, manifest, number, tuple(reasons))
    return found


def kept_revisions(past: History) -> set[int]:
    """The revisions whose stopped ranks stay on their nodes: of each certified group the newest one, what runs or was
    begun, and what ran before that."""
    newest = {(it.subject["digest"], it.plan): it.number for it in past.revisions.values() if it.certificate}
    return {*newest.values(), *(revision.number for revision, _ in _recent(past))}


def _needed(past: History) -> Iterator[tuple[Revision, str]]:
    yield from ((revision, "is certified") for revision in past.revisions.values() if revision.certificate)
    yield from _recent(past)


def _recent(past: History) -> Iterator[tuple[Revision, str]]:
    ran = [it.number for it in past.revisions.values() if it.state in ("committed", "adopted")]
    last = None if past.running or past.unfinished else max(ran, default=None)
    for number, reason in ((past.unfinished, "was not ended"), (past.running, "runs"), (last, "ran last")):
        if number is None:
            continue
        revision = past.revisions[number]
        yield revision, reason
        if revision.old in past.revisions:
            yield past.revisions[revision.old], f"ran before revision {number}"
