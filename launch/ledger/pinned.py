"""An image by the digest of its manifest, for engines that pull it from a registry themselves, with its certificate."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from launch.plan.group import Subject
from recipe.config.check import Checked
from recipe.errors import HallmarkError, Refused
from recipe.image.reference import Reference, remote

if TYPE_CHECKING:
    from recipe.image.registry import Repository


def pinned(checked: Checked, subject: Subject, say: Callable[[str], None]) -> tuple[Subject, str | None]:
    """The subject with a reference that no tag can be moved away from, and the sha256 (hex) of the last certificate
    beside it that holds here; a name that already is a digest is not looked up.

    Errors: HallmarkError for a name of no registry; Refused when it is not there; Unreachable.
    """
    there = remote(subject.reference)
    if there is None or there.name is None:
        raise HallmarkError(
            f"{checked.cluster.value.engine} pulls images by their digest, and {subject.reference!r} names no registry",
            where=checked.cluster.document.where(("engine",)),
            hint="name HOST/PATH@sha256:… with --image, or name a `registry` and push the profile's image there",
        )
    # Its HTTP client takes longer to import than most commands that only plan.
    from recipe.image.registry import Repository

    with Repository(there) as repository:
        digest = there.name if ":" in there.name else _digest(repository, there)
        try:
            certificate, why = _certificate(checked, repository, digest)
        except HallmarkError as error:
            certificate, why = None, str(error)
    if certificate is None:
        say(f"warning: {there.at(digest)} has no certificate that holds here{f': {why}' if why else ''}")
    return replace(subject, reference=Reference(there.host, there.path).at(digest)), certificate


def _digest(repository: "Repository", there: Reference) -> str:
    found = repository.manifest(str(there.name))
    if found is None:
        hint = f"`hallmark image PROFILE --push {there.repository}` builds a profile's and stores it there"
        raise Refused(f"there is no image {there.at(str(there.name))}", hint=hint)
    return found.digest


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
