"""What a registry says about the image of a name, for one architecture; no layer is fetched."""

from dataclasses import dataclass

from recipe.errors import Unreachable
from recipe.image import reference
from recipe.image.inspect import Image, repository_of
from recipe.image.reference import Reference


@dataclass(frozen=True)
class Remote:
    """An image in a registry. `list_digest`: of the list that the name stands for, None when it is one image."""

    list_digest: str | None
    image: Image


def image(name: str, architecture: str | None) -> Remote | None:
    """The image of this name; None when the registry has no such image.

    Errors: Unreachable when the name is in no registry, the registry does not answer or wants a login; Refused when
    it is a list without exactly one image for the architecture.
    """
    from recipe.image.registry import Repository

    wanted = _reference(name)
    with Repository(wanted) as repository:
        named = repository.manifest(wanted.name or "latest")
        found = repository.image(named.digest, architecture) if named else None
    if named is None or found is None:
        return None
    manifest, made = found
    return Remote(None if manifest.digest == named.digest else named.digest, made)


def _reference(name: str) -> Reference:
    """The place of a name as docker reads it: without a registry it is one of the default one's."""
    found = reference.remote(name)
    if found is not None:
        return found
    repository = repository_of(name)
    if repository.startswith("localhost/"):
        raise Unreachable("is in no registry, only on the engine that it was made on", where=name)
    tag = name.partition("@")[2] or name[len(repository) + 1 :]
    path = repository if "/" in repository else f"library/{repository}"
    return Reference("docker.io", path, tag or None)
