"""What a launch knows about the proof of what it brings up: certified exactly so, or a trial."""

from collections.abc import Iterator
from dataclasses import dataclass

from launch.ledger.subject import registry_of
from launch.ledger.work import Work
from launch.plan.group import GroupPlan
from recipe.errors import HallmarkError
from recipe.image.reference import Reference, remote


@dataclass(frozen=True)
class Standing:
    """`certified`: a certificate holds here for this image with these arguments; `said`: that, or why not."""

    certified: bool
    said: str


def standing(work: Work, plan: GroupPlan, hardware: str) -> Standing:
    """Look for a certificate of a plan in the history and beside its image. Never an error: a trial needs none."""
    from launch.ledger.certify import argv_digest
    from launch.proof import keys
    from launch.proof.certificate import verify

    what = f"{plan.subject.reference} ({plan.subject.kind} sha256:{plan.subject.digest})"
    reasons: list[str] = []
    otherwise: str | None = None
    trusted = keys.trusted()
    for source, content in _envelopes(work, plan, reasons):
        found = verify(content, trusted=trusted, digest=plan.subject.digest, profile=plan.profile, hardware=hardware)
        if not found.valid or found.statement is None:
            reasons.append(f"{source}: {found.reasons[0]}")
            continue
        predicate = found.statement["predicate"]
        told = f"{source}, tested {predicate['hallmark']['finished']}, signed by {found.signed}"
        named = {entry["name"]: entry["digest"]["sha256"] for entry in predicate["configuration"]}
        if named.get("argv") == argv_digest(plan):
            return Standing(True, f"{what} is certified: {told}")
        otherwise = otherwise or told
    later = f"it cannot be rolled back to until `hallmark certify {work.cluster.name}`"
    if otherwise is not None:
        return Standing(False, f"this is a trial: {what} is certified, but with other arguments: {otherwise}; {later}")
    why = f" ({'; '.join(dict.fromkeys(reasons))})" if reasons else ""
    return Standing(False, f"this is a trial: {what} is not certified{why}; {later}")


def _envelopes(work: Work, plan: GroupPlan, reasons: list[str]) -> Iterator[tuple[str, bytes]]:
    for path in sorted(work.store.certificates.glob(f"{plan.subject.digest}*.json"), reverse=True):
        try:
            yield f"certificate {path.name}", path.read_bytes()
        except OSError as error:
            reasons.append(f"certificate {path.name} cannot be read: {error.strerror}")
    for there in _places(work, plan):
        from launch.proof import attached
        from recipe.image.registry import Repository

        try:
            with Repository(there) as repository:
                # By tag, or as staging names what is pushed.
                for name in (there.name, str(plan.subject.digest)[:12]):
                    image = repository.manifest(name) if name else None
                    if image is not None and image.config == f"sha256:{plan.subject.digest}":
                        found = attached.read(repository, image.digest)
                        yield from ((f"a certificate beside {there.at(image.digest)}", content) for content in found)
                        break
        except HallmarkError as error:
            reasons.append(str(error))


def _places(work: Work, plan: GroupPlan) -> list[Reference]:
    """The registries in which certificates may be beside this image."""
    if plan.subject.kind != "image":
        return []
    named, registry = remote(plan.subject.reference), registry_of(work.cluster)
    if registry is None or (named is not None and named.repository == registry.repository):
        return [named] if named is not None else []
    return [registry, *([named] if named is not None else [])]
