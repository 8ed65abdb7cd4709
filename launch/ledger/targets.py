"""Whether what a cluster may roll back to is still on its nodes: somebody may have tidied up there."""

from collections.abc import Iterator

from launch.ledger.history import History
from launch.ledger.subject import recorded
from launch.ledger.work import Work
from launch.nodes import reach
from launch.nodes.image import StagedImage
from launch.nodes.stock import present
from launch.plan.place import Place
from recipe.errors import HallmarkError


def removed(work: Work, past: History) -> Iterator[str]:
    """Certified images that nodes no longer have, and whether a rollback could bring them back. Changes nothing.

    Errors: Unreachable.
    """
    nodes = [Place(it.name, it.address, it.docker_host) for it in work.cluster.value.nodes]
    certified = {
        revision.subject["digest"]: revision
        for revision in past.revisions.values()
        if revision.certificate and revision.subject["kind"] == "image"
    }
    if not certified or work.cluster.value.engine != "docker":
        return
    there = dict(zip(nodes, reach.each(present, nodes), strict=True))
    for digest, revision in certified.items():
        try:
            staging = recorded(work, revision, work.generation(revision.number).plan)
        except HallmarkError:
            # A rollback says what is wrong with its records.
            continue
        assert isinstance(staging, StagedImage)
        lacking = [it.name for it in staging.places if it in there and f"sha256:{digest}" not in there[it]]
        if lacking:
            reasons = staging.unrestorable()
            later = f"it cannot be rolled back to: {'; '.join(reasons)}" if reasons else "a rollback brings it back"
            where = f"{staging.reference} ({staging.id}), of certified revision {revision.number}"
            yield f"somebody removed {where}, from {', '.join(lacking)}: {later}"
