"""Decides every edit of a patch set in memory: its state, the bytes that result, and whether they are right.

Planning starts from the pristine view of a tree: files that an earlier application changed are first led back
through its manifest. So a second run, another patch set and an upgrade of one patch are the same computation.
"""

from __future__ import annotations

import difflib
from pathlib import PurePosixPath

from .combine import Item, blame, combine
from .errors import NOT_DONE, ApplierError, Candidate, Drift
from .manifest import FileRecord, Undo, gone, sha256
from .ops import operation
from .ops.overlay import Overlay
from .patchset import PatchSet, public
from .source import MODULE, Source, shallow
from .states import ALREADY_UNKNOWN, APPLIED, NOT_APPLICABLE, PENDING, UPSTREAMED, Change, EditPlan, PatchPlan, Plan
from .tree import Sources, check_patchable

_UNKNOWN = (
    "the change is there, but neither the release nor a manifest says where it came from; install the distribution "
    "afresh, or take the patch out"
)


def plan(sources: Sources, patchset: PatchSet) -> Plan:
    """Decide a patch set against sources; reads, never writes.

    Errors: ApplierError(2) when the sources are of another vLLM version. Drifts are states, not errors.
    """
    if public(sources.version) != public(patchset.vllm):
        raise ApplierError(
            NOT_DONE,
            f"the sources are vLLM {sources.version}, the patch set is for {patchset.vllm}",
            hint=f'name the sources of {patchset.vllm}, or write vllm: "{public(sources.version)}" in the profile',
        )
    unchanged = _as_recorded(sources, patchset)
    if unchanged is not None:
        return unchanged
    patches, items = _items(patchset)
    by_file: dict[str, list[Item]] = {}
    for item in items:
        by_file.setdefault(item.plan.file, []).append(item)
    recorded = sources.manifest.files if sources.manifest else {}
    files: dict[str, Change] = {}
    changes: list[Change] = []
    for file in sorted({*by_file, *recorded}):
        change = _plan_file(sources, patchset, file, by_file.get(file, []), recorded.get(file))
        if change is None:
            continue
        if change.after != change.pristine:
            files[file] = change
        if change.after != change.current:
            changes.append(change)
    return Plan(patchset, patches, files, changes)


def _as_recorded(sources: Sources, patchset: PatchSet) -> Plan | None:
    """The plan of a tree that already carries exactly this patch set, told from hashes alone."""
    manifest = sources.manifest
    if manifest is None or manifest.patchset != patchset.sha256:
        return None
    if patchset.lock is not None and patchset.lock != {
        file: [record.before, record.after] for file, record in manifest.files.items()
    }:
        return None
    for file, record in manifest.files.items():
        data = sources.read(file)
        if data is None or sha256(data) != record.after:
            return None
    patches, _ = _items(patchset)
    for patch in patches:
        recorded = manifest.patches.get(patch.id, {}).get("edits", [])
        if len(recorded) != len(patch.edits):
            return None
        for edit, entry in zip(patch.edits, recorded, strict=True):
            edit.state = entry["state"]
    return Plan(patchset, patches, {}, [])


def _items(patchset: PatchSet) -> tuple[list[PatchPlan], list[Item]]:
    patches, items = [], []
    for patch in patchset.patches:
        planned = PatchPlan(patch["id"], patch["required"], patch["independent"])
        patches.append(planned)
        for index, spec in enumerate(patch["edits"]):
            check_patchable(spec["file"], new=spec["op"] == "overlay" and not spec.get("replaces"))
            edit = EditPlan(spec["file"], spec.get("in", MODULE), spec["op"])
            edit.seen = patchset.seen(patch["id"], index)
            planned.edits.append(edit)
            items.append(Item(patch, spec, edit))
    return patches, items


def _plan_file(
    sources: Sources, patchset: PatchSet, file: str, items: list[Item], record: FileRecord | None
) -> Change | None:
    current = sources.read(file)
    pristine = current
    if record is not None:
        try:
            if current is None:
                raise gone(file)
            pristine = record.reverse(file, current)
        except ApplierError as error:
            if not items:
                # No edit could carry the drift, and the file's way back must not be forgotten.
                raise
            for item in items:
                item.drift(Drift("conflict", error.message))
            return None
    upstream = pristine is not None and (
        sha256(pristine) in patchset.baseline.get(file, []) or sources.pristine_by_release(file, pristine)
    )
    source: Source | None = None
    for item in items:
        try:
            with shallow(file):
                item.operation = operation(item.spec)
            if isinstance(item.operation, Overlay):
                _decide_overlay(item, pristine, upstream)
                continue
            if pristine is None:
                _absent(item, sources)
                continue
            source = source or Source(file, pristine)
            with shallow(file):
                _decide(item, source, upstream)
        except Drift as drift:
            item.drift(drift)
    after: bytes | None = pristine
    undo: tuple[Undo, ...] = ()
    wanted = [item for item in items if item.plan.state == PENDING]
    if wanted:
        try:
            with shallow(file):
                after, undo = combine(file, pristine, source, wanted)
        except Drift as drift:
            blame(file, pristine, wanted, drift)
    if not _drifts(items):
        _check_lock(patchset, file, items, pristine, after)
    if _drifts(items):
        return None
    if record is not None and current is not None:
        _mark_applied(sources, wanted, current, complete=after == current)
    file_record = None
    if after is not None and after != pristine:
        replaced = pristine if pristine is not None and not undo else None
        before = sha256(pristine) if pristine is not None else None
        file_record = FileRecord(before, sha256(after), undo, replaced)
    return Change(file, current, pristine, after, file_record)


def _drifts(items: list[Item]) -> bool:
    return any(item.plan.state.startswith("drift:") for item in items)


def _check_lock(patchset: PatchSet, file: str, items: list[Item], pristine: bytes | None, after: bytes | None) -> None:
    """A file that is not as locked is a drift of the edits that would otherwise have been made or found there."""
    if patchset.lock is None:
        return
    found = [None if data is None else sha256(data) for data in (pristine, after)]
    before, result = patchset.lock.get(file, found[:1] * 2)
    if found[0] != before:
        message = f"the file is not the locked one of {patchset.vllm} (sha256 {found[0]}, locked {before})"
    elif found[1] != result:
        message = f"the edits make sha256 {found[1]} of the file, locked is {result}"
    else:
        return
    for item in items:
        if item.plan.state in (PENDING, UPSTREAMED):
            item.drift(Drift("context", message))


def _mark_applied(sources: Sources, items: list[Item], current: bytes, *, complete: bool) -> None:
    """Tell the edits that an earlier application made from those that are still to be made."""
    recorded = sources.manifest.patches if sources.manifest else {}
    for item in items:
        assert item.operation is not None
        listed = recorded.get(item.patch["id"], {}).get("state") == APPLIED
        try:
            if complete or (listed and item.operation.done(Source(item.plan.file, current))):
                item.plan.state = APPLIED
        except Drift:
            continue


def _absent(item: Item, sources: Sources) -> None:
    if item.spec["applies"]:
        raise Drift("missing-file", f"{item.plan.file} does not exist", _nearest_file(sources, item.plan.file))
    item.plan.state = NOT_APPLICABLE


def _nearest_file(sources: Sources, file: str) -> Candidate | None:
    """A file of that name elsewhere, or of a similar name in the same folder."""
    path = PurePosixPath(file)
    options = [
        other
        for other in map(PurePosixPath, sources.files())
        # What a list of files names and the disk lacks is no candidate for itself.
        if other != path and (other.name == path.name or other.parent == path.parent)
    ]
    ratios = [difflib.SequenceMatcher(None, file, str(other)).ratio() for other in options]
    if not ratios or max(ratios) < 0.6:
        return None
    return Candidate(1, MODULE, "", str(options[ratios.index(max(ratios))]))


def _decide_overlay(item: Item, pristine: bytes | None, upstream: bool) -> None:
    assert isinstance(item.operation, Overlay)
    if pristine == item.operation.content:
        item.plan.state = UPSTREAMED if upstream else ALREADY_UNKNOWN
        item.plan.message = None if upstream else _UNKNOWN
    elif not item.spec["applies"]:
        item.plan.state = NOT_APPLICABLE
    elif item.expectation:
        raise Drift("expectation", f"missing: {item.plan.file} as the overlay has it")
    elif pristine is not None:
        item.operation.allows(pristine)
    else:
        check_patchable(item.plan.file, new=True)


def _decide(item: Item, source: Source, upstream: bool) -> None:
    assert item.operation is not None
    try:
        done = item.operation.done(source)
    except Drift:
        if item.spec["applies"]:
            raise
        done = False
    if done and not item.operation.tells() and not item.expectation:
        if item.spec["applies"]:
            place = source.candidate_at(1, item.plan.where)
            raise Drift("anchor", f"not found: {item.operation.sought()}; the new code alone tells nothing", place)
        done = False
    if done and (upstream or item.expectation):
        item.plan.state = UPSTREAMED
    elif not item.spec["applies"]:
        item.plan.state = NOT_APPLICABLE
    elif done:
        item.plan.state = ALREADY_UNKNOWN
        item.plan.message = _UNKNOWN
    else:
        item.operation.check_context(source)
        edit = item.operation.edit(source)
        if item.expectation:
            place = source.candidate_at(source.line_of(edit.splices[0].start), item.plan.where)
            raise Drift("expectation", f"missing: {item.operation.sought()}, as the edit would leave it", place)
        item.edit = edit
