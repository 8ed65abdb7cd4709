"""Writes a plan to an installed tree: all files or none, and back again.

Order: lock; write every new file beside its target; look once more that nothing changed since planning; write
the journal; rename all; remove the journal. Before the journal exists the tree is the old one, from then on it
is the new one, because whoever comes next finishes the renames (`recover`).
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import py_compile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from . import manifest
from .errors import BUSY, MISMATCH, NEEDS_OPERATOR, NOT_DONE, ApplierError
from .manifest import Manifest, sha256
from .plan import Plan
from .tree import Tree, record_hash, record_rows, rewrite_record

JOURNAL = "PATCHES.journal"
_SUFFIX = ".hallmark-new"


@dataclass(frozen=True)
class Write:
    """One file of a transaction: bytes that must be there now, bytes to put there (None: no file), and whether
    these are other bytes than the distribution shipped."""

    file: str
    expected: bytes | None
    content: bytes | None
    patched: bool


@contextmanager
def locked(tree: Tree) -> Iterator[None]:
    """Hold the tree's lock and finish what a killed applier had begun. Errors: ApplierError(6) when held."""
    handle = os.open(tree.root / tree.dist_info, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ApplierError(
                BUSY,
                "another applier works on this tree",
                where=str(tree.root),
                hint="try again when it is done",
            ) from None
        recover(tree)
        yield
    finally:
        os.close(handle)


def apply(tree: Tree, plan: Plan) -> list[str]:
    """Write the plan; returns the files written, the empty list when the tree is as planned already.

    Call under `locked`. Errors: ApplierError(2) nothing was written; (3) begun and not finished.
    """
    if not plan.changes and tree.manifest is not None and tree.manifest.patchset == plan.patchset.sha256:
        return []
    owners = {file: _owner(tree, file) for file in {*plan.files, *(change.file for change in plan.changes)}}
    originals = _original_records(tree, set(owners.values()) | {tree.dist_info})
    new = plan.manifest({name: sha256(data) for name, data in originals.items()})
    writes = [
        Write(change.file, change.current, change.after, change.after != change.pristine) for change in plan.changes
    ]
    after = {file: change.after for file, change in plan.files.items()}
    _write(tree, writes + _bookkeeping(tree, new, after, owners, originals))
    return [change.file for change in plan.changes]


def unapply(tree: Tree) -> list[str]:
    """Undo the application that the manifest records; returns the files restored.

    Errors: ApplierError(4) when a file is not what was written; nothing is changed then.
    """
    if tree.manifest is None:
        return []
    writes = []
    for file, record in sorted(tree.manifest.files.items()):
        current = tree.read(file)
        if current is None:
            raise ApplierError(MISMATCH, "the file was removed after it was patched", where=file)
        writes.append(Write(file, current, record.reverse(file, current), patched=False))
    restored = [write.file for write in writes]
    for name, original in _original_records(tree, set(tree.manifest.records)).items():
        writes.append(Write(f"{name}/RECORD", tree.record(name), original, patched=False))
    path = f"{tree.dist_info}/{manifest.NAME}"
    writes.append(Write(path, tree.read(path), None, patched=False))
    _write(tree, writes)
    return restored


def verify(tree: Tree) -> list[str]:
    """Re-hash everything that the manifest lists, and its rows in RECORD; returns what is wrong."""
    if (tree.root / tree.dist_info / JOURNAL).exists():
        return [f"{tree.dist_info}/{JOURNAL}: an application was killed half-way; apply or unapply again"]
    found = tree.manifest
    own = f"{tree.dist_info}/{manifest.NAME}"
    if found is None:
        listed = f"{own},".encode() in tree.record(tree.dist_info)
        return [f"{own}: RECORD lists it, but it is missing"] if listed else [f"{own}: the tree is not patched"]
    wrong = []

    rows = {name: record_rows(tree.record(name)) for name in found.records}
    for file in [*found.files, own]:
        data = tree.read(file)
        if data is None:
            wrong.append(f"{file}: missing")
            continue
        if file in found.files and sha256(data) != found.files[file].after:
            wrong.append(f"{file}: sha256 {sha256(data)} is not the recorded {found.files[file].after}")
        row = next((rows[name][file] for name in rows if file in rows[name]), None)
        if row != (record_hash(data), str(len(data))):
            wrong.append(f"{file}: RECORD says {row}, the file is {record_hash(data)}")
    return wrong


def recover(tree: Tree) -> bool:
    """Finish the renames of a killed applier. Returns whether there was anything to finish."""
    path = tree.root / tree.dist_info / JOURNAL
    if not path.exists():
        return False
    try:
        entries = json.loads(path.read_bytes())
    except ValueError:
        # Written before the first rename and never completed: the tree is still the old one.
        path.unlink()
        return False
    for entry in entries:
        _rename(tree, entry["file"], entry["remove"], entry["mtime_ns"])
    _refresh_bytecode(tree, [entry["file"] for entry in entries])
    for folder in {tree.path(entry["file"]).parent for entry in entries}:
        _sync(folder)
    path.unlink()
    tree.reload()
    return True


def _owner(tree: Tree, file: str) -> str:
    """The dist-info whose RECORD lists the file; a new file belongs to the patched distribution."""
    return tree.owner(file) or tree.dist_info


def _original_records(tree: Tree, names: set[str]) -> dict[str, bytes]:
    """RECORD of each dist-info as it was before any application."""
    found = {}
    for name in names:
        record = tree.record(name)
        if tree.manifest is not None and name in tree.manifest.records:
            back: dict[str, bytes | None] = {f"{tree.dist_info}/{manifest.NAME}": None}
            for file, entry in tree.manifest.files.items():
                data = tree.read(file)
                if data is not None and f"\n{file},".encode() in b"\n" + record:
                    back[file] = entry.reverse(file, data)
            record = rewrite_record(record, back)
            if sha256(record) != tree.manifest.records[name]:
                raise ApplierError(
                    MISMATCH,
                    "RECORD does not lead back to the original",
                    where=f"{name}/RECORD",
                    hint="install the distribution afresh",
                )
        found[name] = record
    return found


def _bookkeeping(
    tree: Tree,
    new: Manifest,
    after: dict[str, bytes | None],
    owners: dict[str, str],
    originals: dict[str, bytes],
) -> list[Write]:
    own = f"{tree.dist_info}/{manifest.NAME}"
    content = new.dumps()
    writes = [Write(own, tree.read(own), content, patched=True)]
    for name, original in sorted(originals.items()):
        changes = {file: data for file, data in after.items() if owners[file] == name}
        if name == tree.dist_info:
            changes[own] = content
        renewed = rewrite_record(original, changes)
        writes.append(Write(f"{name}/RECORD", tree.record(name), renewed, patched=True))
    return writes


def _write(tree: Tree, writes: list[Write]) -> None:
    writes = [write for write in writes if write.expected != write.content]
    folders = {tree.path(write.file).parent for write in writes}
    made = _make_folders(folders)
    times = {folder: folder.stat() for folder in folders - set(made)}
    temporary: list[Path] = []
    journal = tree.root / tree.dist_info / JOURNAL
    try:
        entries = []
        for write in writes:
            target = tree.path(write.file)
            mtime = _mtime_ns(target, tree, write)
            entries.append({"file": write.file, "remove": write.content is None, "mtime_ns": mtime})
            if write.content is not None:
                temporary.append(_beside(target))
                _write_beside(target, write.content)
        for write in writes:
            if tree.read(write.file) != write.expected:
                raise ApplierError(NOT_DONE, "changed while the patches were planned", where=write.file)
        _durably(journal, json.dumps(entries).encode())
        _sync(journal.parent)
    except BaseException as error:
        for path in temporary:
            with suppress(OSError):
                path.unlink()
        with suppress(OSError):
            journal.unlink()
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            where = str(error.filename or tree.root)
            raise ApplierError(NOT_DONE, f"cannot write: {error.strerror}; nothing was changed", where=where) from None
        raise
    try:
        recover(tree)
        for write in writes:
            if write.content is None:
                _remove_empty(tree.path(write.file).parent, tree.root)
        for folder, status in times.items():
            if folder.is_dir():
                os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))
    except OSError as error:
        raise ApplierError(
            NEEDS_OPERATOR,
            f"the renames were not finished: {error}",
            where=str(journal),
            hint="mend the cause and run the same command again; it goes on where this one stopped",
        ) from None


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}{_SUFFIX}")


def _write_beside(target: Path, content: bytes) -> None:
    path = _beside(target)
    with suppress(FileNotFoundError):
        path.unlink()
    _durably(path, content)
    if target.exists():
        status = target.stat()
        path.chmod(status.st_mode & 0o7777)
        if (status.st_uid, status.st_gid) != (os.getuid(), os.getgid()):
            os.chown(path, status.st_uid, status.st_gid)
    else:
        # An overlay must be readable for the user that runs the server, whatever the umask of the builder.
        path.chmod(0o644)


def _durably(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _mtime_ns(target: Path, tree: Tree, write: Write) -> int:
    """A patched file is one second younger than the original, so that no old bytecode fits it and an undo can
    restore the time without recording it; a new file is as old as the distribution."""
    if not target.exists():
        return (tree.root / tree.dist_info / "METADATA").stat().st_mtime_ns
    recorded = tree.manifest is not None and (write.file in tree.manifest.files or target.name == "RECORD")
    return target.stat().st_mtime_ns + 1_000_000_000 * (write.patched - recorded)


def _sync(folder: Path) -> None:
    with suppress(FileNotFoundError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _rename(tree: Tree, file: str, remove: bool, mtime_ns: int) -> None:
    target = tree.path(file)
    if remove:
        with suppress(FileNotFoundError):
            target.unlink()
        return
    path = _beside(target)
    if path.exists():
        os.utime(path, ns=(mtime_ns, mtime_ns))
        path.replace(target)


def _refresh_bytecode(tree: Tree, files: list[str]) -> None:
    """Replace compiled files that were there by ones that are checked against the source's hash.

    Those of other Pythons are removed, as this one cannot make them.
    """
    for file in files:
        if not file.endswith(".py"):
            continue
        path = tree.path(file)
        ours = Path(importlib.util.cache_from_source(str(path)))
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            if compiled.name == ours.name and path.exists():
                mode = py_compile.PycInvalidationMode.CHECKED_HASH
                py_compile.compile(str(path), str(compiled), doraise=True, invalidation_mode=mode)
            else:
                compiled.unlink()


def _make_folders(folders: set[Path]) -> list[Path]:
    made: list[Path] = []
    for folder in sorted(folders):
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        for parent in reversed(missing):
            parent.mkdir()
            parent.chmod(0o755)
            made.append(parent)
    return made[::-1]


def _remove_empty(folder: Path, root: Path) -> None:
    while folder != root:
        cache = folder / "__pycache__"
        with suppress(OSError):
            cache.rmdir()
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
