"""Writes several files of a tree: all of them or none, whatever ends the process in between.

Order: note what will be made (`PATCHES.prepared`); put every new file beside its target; look once more that
nothing changed since planning; turn the note into the journal by one rename; rename all; remove the journal. Until
that one rename the tree is the old one, and whoever comes next clears away what was prepared; from then on it is the
new one, and whoever comes next finishes the renames (`recover`).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import bytecode, manifest
from .errors import BUSY, MISMATCH, NEEDS_OPERATOR, NOT_DONE, ApplierError
from .manifest import sha256
from .tree import Tree

PREPARED = "PATCHES.prepared"
JOURNAL = "PATCHES.journal"
_SUFFIX = ".hallmark-new"


@dataclass(frozen=True)
class Write:
    """One file of a transaction: bytes that must be there now, bytes to put there (None: no file), and its time of
    modification then, in nanoseconds."""

    file: str
    expected: bytes | None
    content: bytes | None
    mtime_ns: int


@contextmanager
def locked(tree: Tree) -> Iterator[None]:
    """Hold the tree's lock; finish or clear away what a killed applier had begun, and read the tree again.

    Errors: ApplierError(6) when held; (4) when the tree was patched and its manifest is gone.
    """
    try:
        handle = os.open(tree.root / tree.dist_info, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _not_done(error, tree) from None
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
        # What was read before the lock was held may be older than the last application.
        tree.reload()
        if tree.manifest is None and orphaned(tree):
            raise ApplierError(
                MISMATCH,
                f"RECORD lists {tree.dist_info}/{manifest.NAME}, but it is missing: what was patched cannot be told",
                where=str(tree.root),
                hint="install the distribution afresh",
            )
        yield
    finally:
        os.close(handle)


def orphaned(tree: Tree) -> bool:
    """Whether RECORD lists a manifest; together with none being there it means that the tree was patched once."""
    return tree.owner(f"{tree.dist_info}/{manifest.NAME}") is not None


def unfinished(tree: Tree) -> str | None:
    """What a killed applier left; None when there is nothing of that kind."""
    folder = tree.root / tree.dist_info
    if (folder / JOURNAL).exists():
        return f"{tree.dist_info}/{JOURNAL}: an application was killed half-way; apply or unapply finishes it"
    if (folder / PREPARED).exists():
        return (
            f"{tree.dist_info}/{PREPARED}: an application was killed before it began; apply or unapply clears it away"
        )
    return None


def write(tree: Tree, writes: list[Write]) -> None:
    """Make all writes. Call under `locked`.

    Errors: ApplierError(2) nothing was changed; (3) begun and not finished.
    """
    prepared, journal = tree.root / tree.dist_info / PREPARED, tree.root / tree.dist_info / JOURNAL
    before = {tree.dist_info: prepared.parent.stat().st_mtime_ns}
    try:
        _prepare(tree, [write for write in writes if write.expected != write.content], prepared)
        prepared.replace(journal)
        _finish(tree, journal)
    except ApplierError:
        if not journal.exists():
            with suppress(OSError):
                _clear(tree, prepared)
        raise
    except BaseException as error:
        # An interrupt must not leave half of the files renamed, nor what was prepared.
        recover(tree)
        with suppress(OSError):
            # The note that tells it may be what could not be written.
            _restore_times(tree, before)
        if isinstance(error, OSError):
            raise _not_done(error, tree) from None
        raise


def recover(tree: Tree) -> bool:
    """Finish the renames of a killed applier, or clear away what it had only prepared. Returns whether there was
    anything of either.

    Errors: ApplierError(3) when it cannot be finished, (2) when it cannot be cleared away.
    """
    prepared, journal = tree.root / tree.dist_info / PREPARED, tree.root / tree.dist_info / JOURNAL
    if journal.exists():
        _finish(tree, journal)
    elif prepared.exists():
        try:
            _clear(tree, prepared)
        except OSError as error:
            raise _not_done(error, tree) from None
    else:
        return False
    return True


def _not_done(error: OSError, tree: Tree) -> ApplierError:
    message = f"cannot write: {error.strerror or error}; nothing was changed"
    return ApplierError(NOT_DONE, message, where=str(error.filename or tree.root))


def _prepare(tree: Tree, writes: list[Write], prepared: Path) -> None:
    targets = {write.file: tree.path(write.file) for write in writes}
    parents = {parent for path in targets.values() for parent in path.parents if tree.root in (parent, *parent.parents)}
    made = sorted(folder for folder in parents if not folder.exists())
    # A new folder is as old as the distribution, so that two applications are alike.
    born = (tree.root / tree.dist_info / "METADATA").stat().st_mtime_ns
    note = {
        "files": [
            {
                "file": write.file,
                "sha256": None if write.content is None else sha256(write.content),
                "mtime_ns": write.mtime_ns,
            }
            for write in writes
        ],
        "made": [str(folder.relative_to(tree.root)) for folder in made],
        "folders": {
            str(folder.relative_to(tree.root)): born if folder in made else folder.stat().st_mtime_ns
            for folder in sorted(parents)
        },
    }
    _durably(prepared, json.dumps(note).encode())
    _sync(prepared.parent)
    for folder in made:
        folder.mkdir()
        folder.chmod(0o755)
    for write in writes:
        if write.content is not None:
            _write_beside(targets[write.file], write.content)
    for folder in {path.parent for path in [*targets.values(), *made]}:
        _sync(folder)
    for write in writes:
        if tree.read(write.file) != write.expected:
            raise ApplierError(NOT_DONE, "changed while the patches were planned", where=write.file)


def _write_beside(target: Path, content: bytes) -> None:
    path = _beside(target)
    with suppress(FileNotFoundError):
        path.unlink()
    _durably(path, content)
    if target.is_dir():
        raise ApplierError(NOT_DONE, "is a folder, where a file is to be put", where=str(target))
    if target.exists():
        status = target.stat()
        if (status.st_uid, status.st_gid) != (os.getuid(), os.getgid()):
            os.chown(path, status.st_uid, status.st_gid)
        path.chmod(status.st_mode & 0o7777)
    else:
        # A new module must be readable for the user that runs the server, whatever the umask of the builder.
        path.chmod(0o644)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}{_SUFFIX}")


def _durably(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _sync(folder: Path) -> None:
    with suppress(FileNotFoundError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _clear(tree: Tree, prepared: Path) -> None:
    """Take away what was put beside the targets: the tree is the old one."""
    try:
        note = _note(prepared)
    except FileNotFoundError:
        return
    except ValueError:
        # The note itself was not finished, so nothing else was begun.
        note = {"files": [], "made": [], "folders": {}}
    for entry in note["files"]:
        with suppress(FileNotFoundError, NotADirectoryError):
            _beside(tree.path(entry["file"])).unlink()
    for folder in reversed(note["made"]):
        with suppress(FileNotFoundError):
            tree.path(folder).rmdir()
    prepared.unlink()
    _restore_times(tree, note["folders"])


def _finish(tree: Tree, journal: Path) -> None:
    """Make the tree the new one; may be repeated from anywhere. Errors: ApplierError(3)."""
    try:
        note = _note(journal)
        files = note["files"]
        for entry in files:
            _rename(tree, entry["file"], entry["sha256"], entry["mtime_ns"])
        paths = [tree.path(entry["file"]) for entry in files]
        bytecode.refresh(paths)
        for folder in {path.parent for path in paths}:
            _sync(folder)
        for path, entry in zip(paths, files, strict=True):
            if entry["sha256"] is None:
                _remove_empty(path.parent, tree.root)
        _restore_times(tree, note["folders"])
        journal.unlink()
    except ValueError:
        raise ApplierError(
            NEEDS_OPERATOR,
            "the journal is damaged, so what was begun cannot be finished",
            where=str(journal),
            hint="install the distribution afresh",
        ) from None
    except OSError as error:
        raise ApplierError(
            NEEDS_OPERATOR,
            f"the renames were not finished: {error}",
            where=str(journal),
            hint="mend the cause and run the same command again; it goes on where this one stopped",
        ) from None
    with suppress(OSError):
        # The journal's own folder, which was changed last.
        _restore_times(tree, note["folders"])
    tree.reload()


def _note(path: Path) -> dict[str, Any]:
    """What a note or journal says. Errors: ValueError when it is damaged."""
    note = json.loads(path.read_bytes())
    if not isinstance(note, dict) or not {"files", "made", "folders"} <= set(note):
        raise ValueError("lacks what every note has")
    return note


def _rename(tree: Tree, file: str, digest: str | None, mtime_ns: int) -> None:
    target = tree.path(file)
    if digest is None:
        with suppress(FileNotFoundError):
            target.unlink()
        return
    path = _beside(target)
    if path.exists():
        os.utime(path, ns=(mtime_ns, mtime_ns))
        path.replace(target)
    elif sha256(target.read_bytes() if target.is_file() else b"") != digest:
        raise ApplierError(
            NEEDS_OPERATOR,
            f"{path.name} is gone before it was put in place",
            where=str(target),
            hint="install the distribution afresh",
        )


def _remove_empty(folder: Path, root: Path) -> None:
    while folder != root:
        for empty in (folder / "__pycache__", folder):
            # It may be gone already, when this goes on where another applier was killed.
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()
        if folder.exists():
            return
        folder = folder.parent


def _restore_times(tree: Tree, folders: dict[str, int]) -> None:
    for name, mtime_ns in folders.items():
        folder = tree.root / name
        # The times of a folder are its owner's to set; whoever may write into it can still patch.
        with suppress(FileNotFoundError, PermissionError):
            os.utime(folder, ns=(folder.stat().st_atime_ns, mtime_ns))
