"""An image by the digest of its manifest, for engines that pull it from a registry themselves, with its certificate."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from launch.plan.group import Subject
from recipe.config.check import Checked
from recipe.errors import HallmarkError, Refused
from recipe.image.inspect import Image
from recipe.image.reference import Reference, remote

if TYPE_CHECKING:
    from recipe.image.registry import Repository


def pinned(checked: Checked, subject: Subject, say: Callable[[str], None]) -> tuple[Subject, str | None]:
    """The subject with a reference that no tag can be moved away from, and the sha256 (hex) of the last certificate
    beside it that holds here.

    Errors: as `located`.
    """
    # Its HTTP client takes longer to import than most commands that only plan.
    from recipe.image.registry import Repository

    there = located(checked, subject)
    reference = there.at(str(there.name))
    with Repository(there) as repository:
        try:
            certificate, why = _certificate(checked, repository, str(there.name))
        except HallmarkError as error:
            certificate, why = None, str(error)
    if certificate is None:
        say(f"warning: {reference} has no certificate that holds here{f': {why}' if why else ''}")
    return replace(subject, reference=reference), certificate


def pulled(checked: Checked, subject: Subject) -> tuple[str, Image]:
    """The subject's reference by digest, and the image as its registry has it now.

    Errors: as `located`; Refused when it is not there.
    """
    from recipe.image.registry import Repository

    there = located(checked, subject)
    with Repository(there) as repository:
        found = repository.image(str(there.name), checked.hardware.value.architecture)
    if found is None:
        raise _missing(there)
    return there.at(str(there.name)), found[1]


def located(checked: Checked, subject: Subject) -> Reference:
    """Where the subject is, by the digest of its manifest; a name that already is a digest is not looked up.

    Errors: HallmarkError for a name of no registry; Refused when it is not there; Unreachable.
    """
    from recipe.image.registry import Repository

    there = remote(subject.reference)
    if there is None or there.name is None:
        raise HallmarkError(
            f"{checked.cluster.value.engine} pulls images by their digest, and {subject.reference!r} names no registry",
            where=checked.cluster.document.where(("engine",)),
            hint="name HOST/PATH@sha256:… with --image, or name a `registry` and push the profile's image there",
        )
    if ":" in there.name:
        return there
    with Repository(there) as repository:
        found = repository.manifest(there.name)
    if found is None:
        raise _missing(there)
    return replace(there, name=found.digest)


def _missing(there: Reference) -> Refused:
    hint = f"`hallmark image PROFILE --push {there.repository}` builds a profile's and stores it there"
    return Refused(f"there is no image {there.at(str(there.name))}", hint=hint)


def _certificate(checked: Checked, repository: "Repository", digest: str) -> tuple[str | None, str]:
    from launch.proof import attached, keys
    from launch.proof.certificate import verify

    trusted, reasons = keys.trusted(), list[str]()
    profile, hardware = checked.profile.name, checked.hardware.name
    for content in reversed(attached.read(repository, digest)):
        found = verify(content, trusted=trusted, digest=digest, profile=profile, hardware=hardware)
        if found.valid:
            return hashlib.sha256(content).hexdigest(), ""
        reasons += found.reasons[:1]
    return None, "; ".join(dict.fromkeys(reasons))
