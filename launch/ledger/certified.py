"""Which revision a rollback may go to: one whose certificate holds here and now, with what it is about in place."""

from dataclasses import dataclass
from pathlib import Path

from launch.ledger.history import History, Revision
from launch.ledger.work import Work
from launch.nodes import environment
from launch.nodes.environment import Environment
from launch.plan.group import GroupPlan
from recipe.errors import Problem, Refused


@dataclass(frozen=True)
class Target:
    """A certified revision with the plan and environment that bring it back."""

    revision: Revision
    plan: GroupPlan
    environment: Environment


def restorable(work: Work, past: History, to: str | None) -> Target:
    """Choose and check the target of a rollback.

    Errors: Refused with every reason; nothing is touched.
    """
    revision = _choose(past, to)
    plan = work.store.load_plan(revision.number)
    made = Environment(
        Path(plan.subject.reference),
        revision.subject["digest"],
        work.store.load_patchset(revision.subject["patchset"]),
        Path(plan.subject.venv or ""),
    )
    reasons = [*_certificate(work, revision), *environment.differences(made)]
    if reasons:
        error = Refused("")
        head = f"revision {revision.number} cannot be rolled back to; nothing was touched"
        error.problems = (Problem(head), *(Problem(reason) for reason in reasons))
        raise error
    return Target(revision, plan, made)


def _choose(past: History, to: str | None) -> Revision:
    certified = [revision for revision in past.revisions.values() if revision.certificate]
    if to is None:
        running = past.revisions[past.running].subject["digest"] if past.running is not None else None
        others = [revision for revision in certified if revision.subject["digest"] != running]
        if not others:
            raise Refused("there is no certified revision but what runs", hint="certify one first, see history")
        return max(others, key=lambda revision: revision.number)
    wanted = to.removeprefix("sha256:")
    if wanted.removeprefix("r").isdigit() and len(wanted) < 8:
        found = [r for r in past.revisions.values() if r.number == int(wanted.removeprefix("r"))]
    else:
        found = [r for r in past.revisions.values() if r.subject["digest"].startswith(wanted.lower())][-1:]
    if not found:
        known = ", ".join(str(revision.number) for revision in certified) or "none"
        raise Refused(f"there is no revision {to}", where="--to", hint=f"certified revisions: {known}")
    if found[0].certificate is None:
        raise Refused(
            f"revision {found[0].number} is not certified", where="--to", hint="only what was proven can be restored"
        )
    return found[0]


def _certificate(work: Work, revision: Revision) -> list[str]:
    from launch.proof import keys
    from launch.proof.certificate import verify

    path = work.store.certificates / str(revision.certificate)
    if not path.is_file():
        return [f"its certificate {path} is missing"]
    found = verify(
        path.read_bytes(),
        trusted=keys.trusted(),
        digest=revision.subject["digest"],
        profile=revision.profile,
        hardware=revision.hardware,
    )
    return [f"its certificate: {reason}" for reason in found.reasons]
