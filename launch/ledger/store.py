"""Where a cluster's records lie on the head: journal, plans, logs, certificates, lock."""

import hashlib
import secrets
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

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
        self.folder = (cluster.path.parent / state) / "clusters" / cluster.name

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    def journal(self) -> Journal:
        """Read the journal. Errors: Mismatch when it was edited."""
        return Journal(self.folder / "journal.jsonl")

    def logs(self, revision: int) -> Path:
        return self.folder / "logs" / f"r{revision}"

    def mark(self, revision: int) -> str:
        """What the ranks of a revision carry; it begins with `owner()`, which no other cluster's ranks do."""
        return f"{self.owner()}/r{revision}"

    def owner(self) -> str:
        path = self.folder / "id"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(secrets.token_hex(8), encoding="utf-8")
        return f"{self.name}-{path.read_text(encoding='utf-8')}"

    def save_plan(self, revision: int, plan: GroupPlan) -> None:
        """Keep what a revision runs, so that bringing it back does not depend on files that may change."""
        path = self._plan(revision)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_PLAN.dump_json(plan, indent=1))

    def load_plan(self, revision: int) -> GroupPlan:
        """The plan of a revision. Errors: Mismatch when it is missing or damaged."""
        path = self._plan(revision)
        try:
            return _PLAN.validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise Mismatch(f"the plan of revision {revision} cannot be read: {error}", where=str(path)) from None

    def save_patchset(self, found: PatchSet) -> None:
        path = self._patchset(found.sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found.canonical())

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


def find_certificates(home: Path, cluster: str | None) -> list[Path]:
    """The certificates in the history of one cluster (by name or path), or of all clusters of the project."""
    clusters = list_clusters(home) if cluster is None else [load_cluster(home, cluster)]
    return [path for found in clusters for path in sorted(Store(found).certificates.glob("*.json"))]
