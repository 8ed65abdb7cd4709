"""The records of a cluster as commands use them: journal, plans, patch sets, certificates, logs, lock."""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter

from launch.group.journal import Journal, departs, sound
from launch.nodes.lock import Lock
from launch.nodes.records import JOURNAL, Records, write
from launch.nodes.shelf import shelves
from launch.plan.group import GroupPlan
from recipe.applier import patchset
from recipe.applier.errors import ApplierError
from recipe.applier.patchset import PatchSet
from recipe.config.load import Loaded, load_cluster, names
from recipe.config.models import Cluster
from recipe.errors import ConfigError, Mismatch

_PUT_BACK = "put it back in the records on the head; the other nodes have copies"
_PLAN = TypeAdapter(GroupPlan)


class Store:
    """The folder `paths.state`/clusters/NAME of one cluster on its head, read through this machine's copy `folder`."""

    def __init__(self, cluster: Loaded[Cluster], say: Callable[[str], None] = lambda line: None) -> None:
        self.name = cluster.name
        found = shelves(cluster)
        self.lock = Lock(found)
        self._say = say
        self._records = Records(found, say)
        self.folder = self._records.folder
        self._journal: Journal | None = None
        self._read_under: str | None = None

    @property
    def certificates(self) -> Path:
        """Read `journal` first: that brings the folder up to date. New files get to the head with its next entry."""
        return self.folder / "certificates"

    def journal(self) -> Journal:
        """Read the journal, once a command and again once it has the lock; all other records come with it.

        Errors: Unreachable; Mismatch when it was edited, lost entries, or is gone while there are revisions' logs or
        copies of it.
        """
        if self._journal is None or self._read_under != self.lock.number:
            self._journal, self._read_under = self._read(), self.lock.number
            self._compare({})
            assert self._journal is not None
            if self.lock.number is not None:
                self.compare()
        return self._journal

    def seen(self) -> Journal:
        """The journal as it was read here last; for when the head is not reached. Nothing can be written to it."""
        return Journal(self.folder / JOURNAL, self._write, f"{self.folder}/{JOURNAL}")

    def compare(self) -> None:
        """Compare the journal with its copies on the other nodes; one that was edited is told of, and replaced with
        the next entry.

        Errors: Mismatch when a whole copy says that the journal lost entries or is another one.
        """
        self.journal()
        self._compare(self._records.copies())

    def _compare(self, copies: Mapping[str, bytes]) -> None:
        copies = {**self._records.seen(), **copies}
        journal, self._journal = self._journal, None
        # Somebody else may have written since it was read.
        if journal is None or any(departs(journal.content, copy) for copy in copies.values()):
            journal = self._read()
        for node, copy in copies.items():
            line = departs(journal.content, copy)
            if line is None:
                continue
            whole = sound(copy)
            if whole is not None:
                self._say(f"warning: the copy of the history on {node} was edited or damaged: line {whole}")
                continue
            ours = len(journal.entries)
            what = f"line {line} is another than" if line <= ours else f"it ends with line {ours}, line {line} is only"
            raise Mismatch(
                f"the journal was edited, or lost entries: {what} in the copy on {node}",
                where=f"{journal.where}:{line}",
                hint="find out who changed it; put the copy in its place, or move the copy away to accept the journal",
            )
        self._records.note(journal.content)
        self._journal = journal

    def _read(self) -> Journal:
        self._records.refresh(self.lock)
        journal = Journal(self.folder / JOURNAL, self._write, f"{self._records.head.where}/{JOURNAL}")
        if not journal.entries and (self.folder / "logs").exists():
            hint = "put the file back; what runs is only found through it"
            raise Mismatch("the journal is missing or damaged from its first line", where=journal.where, hint=hint)
        return journal

    def logs(self, revision: int) -> Path:
        return self.folder / "logs" / f"r{revision}"

    def mark(self, revision: int) -> str:
        """What the ranks of a revision carry; it begins with `owner()`, which no other cluster's ranks do."""
        return f"{self.owner()}/r{revision}"

    def owner(self) -> str:
        path = self.folder / "id"
        if not path.exists():
            write(path, secrets.token_hex(8).encode())
        return f"{self.name}-{path.read_text(encoding='utf-8')}"

    def save_plan(self, revision: int, plan: GroupPlan) -> str:
        """Keep what a revision runs, so that bringing it back does not depend on files that may change.

        Returns the file's sha256 (hex).
        """
        content = _PLAN.dump_json(plan, indent=1)
        write(self._plan(revision), content)
        return hashlib.sha256(content).hexdigest()

    def load_plan(self, revision: int, sha256: str) -> GroupPlan:
        """The plan of a revision. Errors: Mismatch when it is missing or not the one that was saved."""
        path = self._plan(revision)
        try:
            content = path.read_bytes()
        except OSError as error:
            message = f"the plan of revision {revision} cannot be read: {error.strerror}"
            raise Mismatch(message, where=str(path), hint=_PUT_BACK) from None
        if hashlib.sha256(content).hexdigest() != sha256:
            raise Mismatch(f"the plan of revision {revision} was edited", where=str(path), hint=_PUT_BACK)
        return _PLAN.validate_json(content)

    def save_patchset(self, found: PatchSet) -> None:
        write(self._patchset(found.sha256), found.canonical())

    def load_patchset(self, sha256: str) -> PatchSet:
        """A patch set that was launched. Errors: Mismatch when it is missing or not what its name says."""
        path = self._patchset(sha256)
        with suppress(FileNotFoundError, ApplierError):
            found = patchset.loads(content := path.read_bytes(), str(path))
            if found.sha256 == sha256 and found.canonical() == content:
                return found
        raise Mismatch("the patch set is missing or was edited", where=str(path))

    def save_profile(self, content: bytes) -> None:
        """Keep a profile's file by its sha256."""
        write(self._profile(hashlib.sha256(content).hexdigest()), content)

    def load_profile(self, sha256: str) -> str | None:
        """A profile's file; None when it was not kept, or is no longer what was."""
        with suppress(OSError):
            content = self._profile(sha256).read_bytes()
            if hashlib.sha256(content).hexdigest() == sha256:
                return content.decode(errors="replace")
        return None

    def _write(self, size: int, line: bytes) -> None:
        self._records.append(size, line, self.lock)
        assert self._journal is not None
        self._records.note(self._journal.content + line)

    def _patchset(self, sha256: str) -> Path:
        return self.folder / "patchsets" / f"{sha256}.json"

    def _profile(self, sha256: str) -> Path:
        return self.folder / "profiles" / f"{sha256}.yaml"

    def _plan(self, revision: int) -> Path:
        return self.folder / "plans" / f"r{revision}.json"


def find_certificates(home: Path, cluster: str | None, say: Callable[[str], None] = lambda line: None) -> list[Path]:
    """The certificates in the history of one cluster (by name or path), or of all clusters of the project: of those
    whose head is another machine, the ones that were seen here, because a project may name machines that are off.

    Errors: as `Store.journal`, for one cluster.
    """
    if cluster is None:
        stores = []
        for path in names(home, "clusters").values():
            # The file of another cluster may be half written; what was certified is true all the same.
            try:
                stores.append(Store(load_cluster(home, str(path))))
            except ConfigError as error:
                say(f"warning: certificates of {path.stem} are not looked for: {error}")
    else:
        stores = [Store(load_cluster(home, cluster))]
        stores[0].journal()
    return [path for store in stores for path in sorted(store.certificates.glob("*.json"))]
