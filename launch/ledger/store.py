"""Where a cluster's records lie on the head: journal, plans, logs, certificates, lock."""

import hashlib
import secrets
from pathlib import Path

from pydantic import TypeAdapter

from launch.group.journal import Journal
from launch.plan.group import GroupPlan
from recipe.applier import patchset
from recipe.applier.patchset import PatchSet
from recipe.config.load import Loaded, list_clusters, load_cluster
from recipe.config.models import Cluster
from recipe.errors import Mismatch

_PLAN = TypeAdapter(GroupPlan)


class Store:
    """The folder `paths.state`/clusters/NAME of one cluster."""

    def __init__(self, cluster: Loaded[Cluster]) -> None:
        state = Path(cluster.value.paths.state).expanduser()
        self.name = cluster.name
        self.folder = (cluster.path.parent / state).absolute() / "clusters" / cluster.name

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    def journal(self) -> Journal:
        """Read the journal. Errors: Mismatch when it was edited, or is gone while its revisions' logs are there."""
        journal = Journal(self.folder / "journal.jsonl")
        if not journal.entries and (self.folder / "logs").exists():
            hint = "put the file back; what runs is only found through it"
            raise Mismatch("the journal is missing or damaged from its first line", where=str(journal.path), hint=hint)
        return journal

    def logs(self, revision: int) -> Path:
        return self.folder / "logs" / f"r{revision}"

    def mark(self, revision: int) -> str:
        """What the ranks of a revision carry; it begins with `owner()`, which no other cluster's ranks do."""
        return f"{self.owner()}/r{revision}"

    def owner(self) -> str:
        path = self.folder / "id"
        if not path.exists():
            _write(path, secrets.token_hex(8).encode())
        return f"{self.name}-{path.read_text(encoding='utf-8')}"

    def save_plan(self, revision: int, plan: GroupPlan) -> str:
        """Keep what a revision runs, so that bringing it back does not depend on files that may change.

        Returns the file's sha256 (hex).
        """
        content = _PLAN.dump_json(plan, indent=1)
        _write(self._plan(revision), content)
        return hashlib.sha256(content).hexdigest()

    def load_plan(self, revision: int, sha256: str) -> GroupPlan:
        """The plan of a revision. Errors: Mismatch when it is missing or not the one that was saved."""
        path = self._plan(revision)
        try:
            content = path.read_bytes()
        except OSError as error:
            message = f"the plan of revision {revision} cannot be read: {error.strerror}"
            raise Mismatch(message, where=str(path)) from None
        if hashlib.sha256(content).hexdigest() != sha256:
            raise Mismatch(f"the plan of revision {revision} was edited", where=str(path))
        return _PLAN.validate_json(content)

    def save_patchset(self, found: PatchSet) -> None:
        _write(self._patchset(found.sha256), found.canonical())

    def load_patchset(self, sha256: str) -> PatchSet:
        """A patch set that was launched. Errors: Mismatch when it is missing or not what its name says."""
        path = self._patchset(sha256)
        if path.is_file() and hashlib.sha256(content := path.read_bytes()).hexdigest() == sha256:
            return patchset.loads(content, str(path))
        raise Mismatch("the patch set is missing or was edited", where=str(path))

    def _patchset(self, sha256: str) -> Path:
        return self.folder / "patchsets" / f"{sha256}.json"

    def _plan(self, revision: int) -> Path:
        return self.folder / "plans" / f"r{revision}.json"


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def find_certificates(home: Path, cluster: str | None) -> list[Path]:
    """The certificates in the history of one cluster (by name or path), or of all clusters of the project."""
    clusters = list_clusters(home) if cluster is None else [load_cluster(home, cluster)]
    return [path for found in clusters for path in sorted(Store(found).certificates.glob("*.json"))]
