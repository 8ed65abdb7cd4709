"""Applies a plan to an installed tree and takes it back: the files, the manifest and RECORD as one transaction."""

from __future__ import annotations

from . import manifest
from .errors import MISMATCH, NOT_DONE, ApplierError
from .journal import Write, locked, orphaned, recover, unfinished, write
from .manifest import RecordUndo, gone, sha256
from .states import Plan
from .tree import Tree, record_hash, record_row, record_rows, replace_rows

__all__ = ["apply", "locked", "recover", "unapply", "verify"]

_SECOND_NS = 1_000_000_000


def apply(tree: Tree, plan: Plan) -> list[str]:
    """Write the plan; returns the files written, the empty list when the tree is as planned already.

    Call under `locked`. Errors: ApplierError(2) nothing was written; (3) begun and not finished.
    """
    if not plan.changes and tree.manifest is not None and tree.manifest.patchset == plan.patchset.sha256:
        return []
    owners = {file: _owner(tree, file, change.pristine) for file, change in plan.files.items()}
    recorded = set(tree.manifest.records) if tree.manifest else set()
    originals = _original_records(tree, {*owners.values(), *recorded, tree.dist_info})
    own = f"{tree.dist_info}/{manifest.NAME}"
    after = {file: change.after for file, change in plan.files.items() if change.after is not None}
    records = {
        name: _undo(original, [file for file in [*after, own] if owners.get(file, tree.dist_info) == name])
        for name, original in originals.items()
    }
    new = plan.manifest({name: undo for name, undo in records.items() if undo.rows})
    after[own] = new.dumps()
    writes = [
        Write(change.file, change.current, change.after, _mtime_ns(tree, change.file, change.after != change.pristine))
        for change in plan.changes
    ]
    writes.append(Write(own, tree.read(own), after[own], _mtime_ns(tree, own, False)))
    for name, original in sorted(originals.items()):
        rows: dict[str, str | None] = {path: record_row(original, path, after[path]) for path in records[name].rows}
        record, _ = replace_rows(original, rows)
        path = f"{name}/RECORD"
        writes.append(Write(path, tree.record(name), record, _mtime_ns(tree, path, record != original)))
    write(tree, writes)
    return [change.file for change in plan.changes]


def unapply(tree: Tree) -> list[str]:
    """Undo the application that the manifest records; returns the files restored. Call under `locked`.

    Errors: ApplierError(4) when a file is not what was written; nothing is changed then.
    """
    if tree.manifest is None:
        return []
    writes = []
    for file, record in sorted(tree.manifest.files.items()):
        current = tree.read(file)
        if current is None:
            raise gone(file)
        writes.append(Write(file, current, record.reverse(file, current), _mtime_ns(tree, file, False)))
    restored = [write.file for write in writes]
    for name, original in _original_records(tree, set(tree.manifest.records)).items():
        path = f"{name}/RECORD"
        writes.append(Write(path, tree.record(name), original, _mtime_ns(tree, path, False)))
    own = f"{tree.dist_info}/{manifest.NAME}"
    writes.append(Write(own, tree.read(own), None, 0))
    write(tree, writes)
    return restored


def verify(tree: Tree) -> list[str]:
    """Re-hash everything that the manifest lists, and its rows in RECORD; returns what is wrong. Changes nothing."""
    left = unfinished(tree)
    if left is not None:
        return [left]
    found = tree.manifest
    own = f"{tree.dist_info}/{manifest.NAME}"
    if found is None:
        return [f"{own}: RECORD lists it, but it is missing" if orphaned(tree) else f"{own}: the tree is not patched"]
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
            wrong.append(
                f"{file}: RECORD says {' '.join(row or ('nothing',))}, the file is {record_hash(data)} {len(data)}"
            )
    try:
        _original_records(tree, set(found.records))
    except ApplierError as error:
        wrong.append(f"{error.where}: {error.message}")
    return wrong


def _owner(tree: Tree, file: str, pristine: bytes | None) -> str:
    """The dist-info whose RECORD lists the file; a new file belongs to the patched distribution."""
    owner = tree.owner(file)
    if owner is None and pristine is not None:
        raise ApplierError(
            NOT_DONE,
            "no installed distribution lists this file in its RECORD, so it is nobody's to patch",
            where=file,
            hint="install the distribution from a wheel",
        )
    return owner or tree.dist_info


def _undo(original: bytes, paths: list[str]) -> RecordUndo:
    _, rows = replace_rows(original, dict.fromkeys(paths, "\n"))
    return RecordUndo(sha256(original), rows)


def _original_records(tree: Tree, names: set[str]) -> dict[str, bytes]:
    """RECORD of each dist-info as it was before any application."""
    found = {}
    for name in names:
        record = tree.record(name)
        undo = tree.manifest.records.get(name) if tree.manifest else None
        if undo is not None:
            record, _ = replace_rows(record, undo.rows)
            if sha256(record) != undo.sha256:
                raise ApplierError(
                    MISMATCH,
                    "RECORD does not lead back to the original",
                    where=f"{name}/RECORD",
                    hint="install the distribution afresh",
                )
        found[name] = record
    return found


def _mtime_ns(tree: Tree, file: str, patched: bool) -> int:
    """A patched file is one second younger than the original, so that no old bytecode fits it and an undo can
    restore the time without recording it; a new file is as old as the distribution."""
    target = tree.path(file)
    born = (tree.root / tree.dist_info / "METADATA").stat().st_mtime_ns
    if file == f"{tree.dist_info}/{manifest.NAME}" or not target.exists():
        return born
    name, _, leaf = file.rpartition("/")
    found = tree.manifest
    recorded = found is not None and (file in found.files or (leaf == "RECORD" and name in found.records))
    return target.stat().st_mtime_ns + _SECOND_NS * (patched - recorded)
