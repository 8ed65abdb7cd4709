"""What a registry says about the image of a name, for one architecture; no layer is fetched."""

from dataclasses import dataclass

from recipe.errors import HallmarkError, Unreachable
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

    Errors: HallmarkError when it is no name; Unreachable when it is in no registry, or the registry does not answer or
    wants a login; Refused when it is a list without exactly one image for the architecture, or is not well-formed.
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
    if repository.startswith("localhost/") or repository == "sha256":
        raise Unreachable("is in no registry, only on the engine that it was made on", where=name)
    rest = name[len(repository) :]
    found = reference.remote(f"docker.io/{repository if '/' in repository else f'library/{repository}'}{rest}")
    if found is None:
        raise HallmarkError("is not the name of an image", where=name, hint="write HOST/PATH:TAG or PATH:TAG")
    return found
