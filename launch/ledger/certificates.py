"""All certificates of a cluster or of the project, each once: in histories, and beside images in registries."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launch.ledger.history import history
from launch.ledger.store import Store
from launch.ledger.subject import registry_of
from launch.proof import keys
from launch.proof.certificate import Verification, verify
from recipe.config.load import load_cluster, names
from recipe.errors import ConfigError, HallmarkError
from recipe.image.reference import Reference


@dataclass
class Listed:
    """A certificate with where it lies: `files` in histories, `images` (REPO@sha256:HEX) that it is attached to;
    `revisions` that it is about, as CLUSTER/NUMBER."""

    content: bytes
    found: Verification
    files: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    revisions: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        file = self.files[0] if self.files else None
        return {"file": file, "images": self.images, "revisions": self.revisions, **self.found.document()}


def of_clusters(home: Path, cluster: str | None, say: Callable[[str], None]) -> list[Listed]:
    """Of one cluster, or of all of the project; a registry that does not answer is told of.

    Errors: as `Store.journal`, for one cluster. Of all clusters those are read that were seen here, because a project
    may name machines that are off.
    """
    listed: dict[str, Listed] = {}
    repositories: dict[str, Reference] = {}
    for store, registry in _stores(home, cluster, say):
        proven = history(store.journal().entries).revisions.values() if cluster is not None else []
        for path in sorted(store.certificates.glob("*.json")):
            try:
                content = path.read_bytes()
            except OSError as error:
                say(f"warning: {path} cannot be read: {error.strerror}")
                continue
            one = _add(listed, content, verify(content, trusted=keys.trusted()))
            one.files.append(str(path))
            one.revisions += [f"{store.name}/{it.number}" for it in proven if it.certificate == path.name]
        if registry is not None:
            repositories[registry.repository] = registry
    for registry in repositories.values():
        try:
            for one in of_repository(registry):
                _merge(listed, one)
        except HallmarkError as error:
            say(f"warning: certificates in {registry.repository} are not looked for: {error}")
    return list(listed.values())


def of_repository(registry: Reference) -> list[Listed]:
    """Those that are attached to the images of a repository. Errors: Unreachable; Refused."""
    from launch.proof import attached
    from recipe.image.registry import Repository

    listed: list[Listed] = []
    with Repository(registry) as repository:
        for manifest, content in attached.everything(repository):
            # About the very image that it lies beside, or not valid there.
            found = verify(content, trusted=keys.trusted(), digest=manifest)
            listed.append(Listed(content, found, images=[registry.at(manifest)]))
    return listed


def _stores(home: Path, cluster: str | None, say: Callable[[str], None]) -> Iterator[tuple[Store, Reference | None]]:
    for name in [cluster] if cluster is not None else map(str, names(home, "clusters").values()):
        try:
            loaded = load_cluster(home, name)
            yield Store(loaded, say), registry_of(loaded)
        except ConfigError as error:
            if cluster is not None:
                raise
            # The file of another cluster may be half written; what was certified is true all the same.
            say(f"warning: certificates of {Path(name).stem} are not looked for: {error}")


def _add(listed: dict[str, Listed], content: bytes, found: Verification) -> Listed:
    return listed.setdefault(hashlib.sha256(content).hexdigest(), Listed(content, found))


def _merge(listed: dict[str, Listed], one: Listed) -> None:
    if one.found.valid:
        _add(listed, one.content, one.found).images.extend(one.images)
        return
    # A copy beside another image is a line of its own: there it is worth nothing.
    key = f"{one.images}{hashlib.sha256(one.content).hexdigest()}"
    listed[key] = one
