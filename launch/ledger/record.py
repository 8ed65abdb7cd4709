"""A revision with all that was kept of it."""

from launch.ledger.changes import Record
from launch.ledger.history import History
from launch.ledger.work import Work
from recipe.errors import HallmarkError, Mismatch


def record(work: Work, past: History, number: int) -> Record:
    """Read it. Errors: HallmarkError for a number that no revision has; Mismatch when its plan is lost or edited."""
    revision = past.revisions.get(number)
    if revision is None:
        known = ", ".join(map(str, past.revisions)) or "none"
        raise HallmarkError(f"there is no revision {number}", where="--diff", hint=f"revisions: {known}")
    plan = work.generation(number).plan
    patches: dict[str, object] | None = None
    if revision.patches is not None:
        patches = dict.fromkeys(revision.patches)
        try:
            kept = work.store.load_patchset(str(revision.subject["patchset"]))
            patches = {str(patch["id"]): patch for patch in kept.patches}
        except Mismatch:
            # Only images that were built from the files that were here have their patch set kept.
            pass
    return Record(revision, plan, patches, work.store.load_profile(revision.profile_sha256))
