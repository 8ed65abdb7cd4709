"""Which revision a rollback may go to: one whose certificate holds here and now, with what it is about in place."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from launch.ledger import tags
from launch.ledger.history import History, Revision
from launch.ledger.subject import recorded
from launch.ledger.work import Work, refusal
from launch.nodes import facts
from launch.nodes.staging import Staging
from launch.plan.group import GroupPlan
from recipe.errors import Refused

# Shorter than this is a revision's number; history shows eight characters.
_SHORTEST_DIGEST = 8
# What ends sooner is told to whoever rolls back.
_SOON = timedelta(days=14)


@dataclass(frozen=True)
class Target:
    """A certified revision with the plan and subject that bring it back, and what a person should know about it."""

    revision: Revision
    plan: GroupPlan
    staging: Staging
    notes: list[str]


def restorable(work: Work, past: History, to: str | None) -> Target:
    """Choose and check the target of a rollback.

    Errors: Refused with every reason; nothing is touched.
    """
    revision, notes = _choose(work, past, to)
    plan = work.generation(revision.number).plan
    staging = recorded(work, revision, plan)
    reasons, more = _certificate(work, revision, plan)
    reasons += staging.unrestorable()
    if reasons:
        raise refusal(f"revision {revision.number} cannot be rolled back to; nothing was touched", reasons)
    notes += [*more, *_forth(past, revision), *tags.moved(work, past, revision.profile), *staging.notes()]
    return Target(revision, plan, staging, list(dict.fromkeys(notes)))


def _choose(work: Work, past: History, to: str | None) -> tuple[Revision, list[str]]:
    certified = [revision for revision in past.revisions.values() if revision.certificate]
    if to is None:
        running = past.revisions[past.running].certificate if past.running is not None else None
        others = [revision for revision in certified if revision.certificate != running]
        if not others:
            raise Refused("there is no certified revision but what runs", hint="certify one first, see history")
        return max(others, key=lambda revision: revision.number), []
    text, notes = to, list[str]()
    found = _named(past, to.removeprefix("sha256:").lower())
    # A number that no revision has is not looked up as a tag.
    if not found and not _is_number(to) and (meant := tags.meaning(work, past, to)) is not None:
        text, notes = f"{to} ({meant.digest})", meant.notes
        found = [it for it in past.revisions.values() if f"sha256:{it.subject['digest']}" == meant.digest]
        if not found:
            message = f"{to} names {meant.digest}, which never ran on this cluster"
            raise Refused(message, where="--to", hint=f"hallmark launch {work.cluster.name} --image {to}")
        if meant.revision is not None:
            found = [past.revisions[meant.revision]]
    if not found:
        known = ", ".join(str(revision.number) for revision in certified) or "none"
        raise Refused(f"there is no revision, digest or tag {to!r}", where="--to", hint=f"certified revisions: {known}")
    if len({revision.subject["digest"] for revision in found}) > 1:
        raise Refused(f"{to} begins more than one digest", where="--to", hint="write more of it")
    proven = [revision for revision in found if revision.certificate]
    if not proven:
        which = ", ".join(str(revision.number) for revision in found)
        what = f"{text}, revision {which}," if notes or text != to else f"revision {which}"
        raise Refused(f"{what} is not certified", where="--to", hint="only what was proven can be restored")
    return proven[-1], notes


def _named(past: History, to: str) -> list[Revision]:
    if _is_number(to):
        return [it for it in past.revisions.values() if it.number == int(to.removeprefix("r"))]
    if len(to) < _SHORTEST_DIGEST:
        return []
    return [revision for revision in past.revisions.values() if revision.subject["digest"].startswith(to)]


def _is_number(to: str) -> bool:
    return to.removeprefix("r").isdecimal() and len(to) < _SHORTEST_DIGEST


def _forth(past: History, target: Revision) -> list[str]:
    """What is said of a rollback behind a rollback, which goes to what that one left."""
    now = past.revisions[past.running] if past.running is not None else None
    if now is None or now.kind != "rollback" or now.old is None:
        return []
    left = past.revisions[now.old]
    if (left.certificate, left.plan) != (target.certificate, target.plan):
        return []
    return [f"this goes forth again: revision {now.number} was the rollback away from revision {left.number}"]


def _certificate(work: Work, revision: Revision, plan: GroupPlan) -> tuple[list[str], list[str]]:
    """Why its certificate does not hold here and now, and what is odd about it."""
    from launch.ledger.certify import argv_digest
    from launch.proof import keys
    from launch.proof.certificate import verify

    path = work.store.certificates / str(revision.certificate)
    if not path.is_file():
        return [f"its certificate {path} is missing"], []
    content = path.read_bytes()
    found = verify(
        content,
        trusted=keys.trusted(),
        digest=revision.subject["digest"],
        profile=revision.profile,
        hardware=revision.hardware,
    )
    reasons = list(found.reasons)
    if hashlib.sha256(content).hexdigest() != revision.certificate_sha256:
        reasons.append(f"edited: {path.name} is not what the history says was written")
    if found.valid and found.statement is not None:
        predicate = found.statement["predicate"]
        about = {entry["name"]: entry["digest"]["sha256"] for entry in predicate["configuration"]}
        if about.get("argv") != argv_digest(plan):
            reasons.append("wrong arguments: it is about another command line or environment of the ranks")
        unlike = facts.unlike(predicate["hallmark"]["hardware"], (rank.place for rank in plan.ranks))
        reasons += [f"wrong hardware: {what}" for what in unlike]
    notes = [f"signed by {found.signed}"] if found.signers else []
    if found.expires is not None and (left := found.expires - datetime.now(UTC)) < _SOON:
        notes.append(f"its certificate counts until {found.expires:%Y-%m-%d %H:%M} UTC only, {left.days} days from now")
    return [f"its certificate: {reason}" for reason in reasons], notes
