"""A revision's image in the cluster's registry: where certificates are attached, and the certified tag."""

from dataclasses import dataclass

from launch.ledger.history import Revision
from launch.ledger.subject import recorded, registry_of
from launch.ledger.work import Work
from launch.nodes.image import StagedImage
from launch.plan.group import GroupPlan
from launch.proof import attached
from recipe.errors import HallmarkError
from recipe.image.reference import Reference, certified_tag
from recipe.image.registry import Repository


@dataclass(frozen=True)
class Published:
    """An image in a registry. `manifest`: the digest under which it is there."""

    registry: Reference
    manifest: str

    @property
    def name(self) -> str:
        return self.registry.at(self.manifest)

    @property
    def subject(self) -> dict[str, str]:
        """What a certificate calls it, with the digest in hex; tools that know only manifests look for that one."""
        return {self.registry.repository: self.manifest.removeprefix("sha256:")}

    def certified(self, profile: str, envelope: bytes) -> str:
        """Attach the certificate and let the profile's certified tag name this very image; gives that tag.

        Errors: as the registry's, with what is in history already.
        """
        tag = certified_tag(profile)
        try:
            with Repository(self.registry) as repository:
                attached.attach(repository, self.manifest, envelope)
                proven = repository.manifest(self.manifest)
                assert proven is not None, "it was there before the gates ran"
                # Registries clean away what has no tag, and the certified one moves on with the next certificate.
                repository.put_manifest(str(proven.config).removeprefix("sha256:")[:12], proven.kind, proven.content)
                repository.put_manifest(tag, proven.kind, proven.content)
        except HallmarkError as error:
            message = f"the certificate is in the history, but not (or without its tag) in {self.registry.repository}"
            error.problems = (*error.problems, *type(error)(message, hint="certify again").problems)
            raise
        return self.registry.at(tag)


def published(work: Work, revision: Revision, plan: GroupPlan) -> Published | None:
    """The image of a revision in the cluster's registry, where it is brought when it is not there; None without one.

    Errors: Unreachable; Refused when it cannot be pushed.
    """
    registry = registry_of(work.cluster)
    if registry is None:
        return None
    staging = recorded(work, revision, plan)
    assert isinstance(staging, StagedImage), "only the docker engine has a registry"
    return Published(registry, staging.publish(work.say))
