"""Decides every edit of a patch set in memory: its state, the bytes that result, and whether they are right.

Planning starts from the pristine view of a tree: files that an earlier application changed are first led back
through its manifest. So a second run, another patch set and an upgrade of one patch are the same computation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from . import check
from .errors import NOT_DONE, ApplierError, Candidate, Drift
from .manifest import FileRecord, Manifest, Undo, sha256
from .ops import Edit, Operation, Splice, operation
from .ops.overlay import Overlay
from .patchset import PatchSet, public
from .source import Source
from .tree import Sources, check_relative

APPLIED, PENDING, UPSTREAMED = "applied", "pending", "upstreamed"
NOT_APPLICABLE, ALREADY_UNKNOWN = "not-applicable", "already-unknown"
NOTHING_TO_DO = (APPLIED, UPSTREAMED, NOT_APPLICABLE)


@dataclass
class EditPlan:
    """State of one edit; for a drift `message`, what was looked for and the nearest candidate."""

    file: str
    where: str
    op: str
    state: str = PENDING
    message: str | None = None
    nearest: Candidate | None = None

    def drift(self, drift: Drift) -> None:
        self.state, self.message, self.nearest = f"drift:{drift.kind}", drift.message, drift.nearest

    def to_json(self) -> dict[str, Any]:
        nearest = self.nearest
        return {
            "file": self.file,
            "where": self.where,
            "op": self.op,
            "state": self.state,
            "message": self.message,
            "nearest": None
            if nearest is None
            else {"line": nearest.line, "where": nearest.where, "text": nearest.text},
        }


@dataclass
class PatchPlan:
    id: str
    required: bool
    independent: bool
    edits: list[EditPlan] = field(default_factory=list)

    @property
    def state(self) -> str:
        """All edits alike → that; not-applicable ones do not count; a mixture is the worst of them."""
        states = [edit.state for edit in self.edits if edit.state != NOT_APPLICABLE]
        if not states:
            return NOT_APPLICABLE
        bad = [state for state in states if state.startswith("drift:") or state == ALREADY_UNKNOWN]
        if bad:
            return bad[0]
        mixed = set(states)
        if len(mixed) == 1:
            return states[0]
        if UPSTREAMED in mixed and not self.independent:
            return "drift:partial"
        return PENDING if PENDING in mixed else APPLIED

    def to_json(self) -> dict[str, Any]:
        return {"state": self.state, "edits": [edit.to_json() for edit in self.edits]}


@dataclass(frozen=True)
class Change:
    """One file to write: its bytes now, before any application, and after this one (None: no file)."""

    file: str
    current: bytes | None
    pristine: bytes | None
    after: bytes | None
    record: FileRecord | None


@dataclass
class Plan:
    """The whole decision. `files` are all files that will differ from the pristine tree, `changes` those of them
    (and of an earlier application) whose bytes on disk must be written."""

    patchset: PatchSet
    patches: list[PatchPlan]
    files: dict[str, Change]
    changes: list[Change]

    def problems(self) -> list[tuple[PatchPlan, EditPlan | None]]:
        """What stands in the way of an application: drifts, and required patches that do nothing here."""
        found: list[tuple[PatchPlan, EditPlan | None]] = []
        for patch in self.patches:
            bad = [edit for edit in patch.edits if edit.state.startswith("drift:") or edit.state == ALREADY_UNKNOWN]
            found += [(patch, edit) for edit in bad]
            if not bad and (patch.state == "drift:partial" or (patch.required and self._idle(patch))):
                found.append((patch, None))
        return found

    def _idle(self, patch: PatchPlan) -> bool:
        return patch.state in (UPSTREAMED, NOT_APPLICABLE) and not self._is_expectation(patch.id)

    def _is_expectation(self, id: str) -> bool:
        return any(patch["id"] == id and patch["class"] == "expectation" for patch in self.patchset.patches)

    def manifest(self, records: dict[str, str]) -> Manifest:
        """The record to write beside the files, every pending edit being applied then."""
        patches: dict[str, Any] = {}
        for patch in self.patches:
            state = APPLIED if patch.state == PENDING else patch.state
            edits = [
                {
                    "file": e.file,
                    "where": e.where,
                    "op": e.op,
                    "state": APPLIED if e.state == PENDING else e.state,
                }
                for e in patch.edits
            ]
            patches[patch.id] = {"state": state, "edits": edits}
        files = {file: change.record for file, change in self.files.items() if change.record is not None}
        return Manifest(self.patchset.sha256, self.patchset.vllm, patches, files, records)

    def to_json(self) -> dict[str, Any]:
        return {
            "vllm": self.patchset.vllm,
            "patchset": self.patchset.sha256,
            "patches": {patch.id: patch.to_json() for patch in self.patches},
        }


@dataclass
class _Item:
    """An edit of the patch set on its way through the plan."""

    patch: dict[str, Any]
    spec: dict[str, Any]
    plan: EditPlan
    operation: Operation | None = None
    edit: Edit | None = None


def plan(sources: Sources, patchset: PatchSet) -> Plan:
    """Decide a patch set against sources; reads, never writes.

    Errors: ApplierError(2) when the sources are of another vLLM version. Drifts are states, not errors.
    """
    if public(sources.version) != public(patchset.vllm):
        raise ApplierError(
            NOT_DONE,
            f"the sources are vLLM {sources.version}, the patch set is for {patchset.vllm}",
            hint="compile the profile for that version, or name the right sources",
        )
    unchanged = _as_recorded(sources, patchset)
    if unchanged is not None:
        return unchanged
    patches, items = _items(patchset)
    by_file: dict[str, list[_Item]] = {}
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


def _items(patchset: PatchSet) -> tuple[list[PatchPlan], list[_Item]]:
    patches, items = [], []
    for patch in patchset.patches:
        planned = PatchPlan(patch["id"], patch["required"], patch["independent"])
        patches.append(planned)
        for spec in patch["edits"]:
            check_relative(spec["file"])
            edit = EditPlan(spec["file"], spec.get("in", "<module>"), spec["op"])
            planned.edits.append(edit)
            items.append(_Item(patch, spec, edit))
    return patches, items


def _plan_file(
    sources: Sources, patchset: PatchSet, file: str, items: list[_Item], record: FileRecord | None
) -> Change | None:
    current = sources.read(file)
    pristine = current
    if record is not None:
        try:
            if current is None:
                raise ApplierError(NOT_DONE, "the file was removed after it was patched")
            pristine = record.reverse(file, current)
        except ApplierError as error:
            for item in items:
                item.plan.drift(Drift("conflict", f"{file}: {error.message}"))
            return None
    upstream = pristine is not None and (
        sha256(pristine) in patchset.baseline.get(file, []) or sources.pristine_by_release(file, pristine)
    )
    source: Source | None = None
    for item in items:
        try:
            item.operation = operation(item.spec)
            if isinstance(item.operation, Overlay):
                _decide_overlay(item, pristine, upstream)
                continue
            if pristine is None:
                _absent(item)
                continue
            source = source or Source(file, pristine)
            _decide(item, source, upstream)
        except Drift as drift:
            item.plan.drift(drift)
    after: bytes | None = pristine
    undo: tuple[Undo, ...] = ()
    wanted = [item for item in items if item.plan.state == PENDING]
    if wanted:
        try:
            after, undo = _combine(file, pristine, source, wanted)
        except Drift as drift:
            for item in wanted:
                if item.plan.state == PENDING:
                    item.plan.drift(drift)
            after, undo = pristine, ()
    if record is not None and after == current:
        for item in wanted:
            item.plan.state = APPLIED
    file_record = None
    if after is not None and after != pristine:
        replaced = pristine if pristine is not None and not undo else None
        before = sha256(pristine) if pristine is not None else None
        file_record = FileRecord(before, sha256(after), undo, replaced)
    return Change(file, current, pristine, after, file_record)


def _absent(item: _Item) -> None:
    if item.spec["applies"]:
        raise Drift("missing-file", f"{item.plan.file} does not exist")
    item.plan.state = NOT_APPLICABLE


def _decide_overlay(item: _Item, pristine: bytes | None, upstream: bool) -> None:
    assert isinstance(item.operation, Overlay)
    if pristine == item.operation.content:
        item.plan.state = UPSTREAMED if upstream else ALREADY_UNKNOWN
    elif not item.spec["applies"]:
        item.plan.state = NOT_APPLICABLE
    elif pristine is not None:
        item.operation.allows(pristine)


def _decide(item: _Item, source: Source, upstream: bool) -> None:
    assert item.operation is not None
    expectation = item.patch["class"] == "expectation"
    try:
        done = item.operation.done(source)
    except Drift as drift:
        if not item.spec["applies"]:
            item.plan.state = NOT_APPLICABLE
        elif expectation:
            raise Drift("expectation", drift.message, drift.nearest) from None
        else:
            raise
        return
    if done and (upstream or expectation):
        item.plan.state = UPSTREAMED
    elif not item.spec["applies"]:
        item.plan.state = NOT_APPLICABLE
    elif done:
        item.plan.state = ALREADY_UNKNOWN
        item.plan.message = "the change is there, but neither the release nor a manifest says where it came from"
    elif expectation:
        try:
            item.operation.edit(source)
        except Drift as drift:
            raise Drift("expectation", f"missing: {item.operation.sought()}", drift.nearest) from None
        raise Drift("expectation", f"missing in {item.plan.where}, though every supported release should have it")
    else:
        item.edit = item.operation.edit(source)


def _combine(
    file: str, pristine: bytes | None, source: Source | None, items: list[_Item]
) -> tuple[bytes, tuple[Undo, ...]]:
    """Put the edits of one file together and check the result. Errors: Drift for all of them."""
    overlays = [item for item in items if isinstance(item.operation, Overlay)]
    if overlays:
        if len(items) > 1:
            ids = ", ".join(sorted({item.patch["id"] for item in items}))
            raise Drift("overlap", f"more than one edit brings {file} ({ids})")
        operation = overlays[0].operation
        assert isinstance(operation, Overlay)
        if file.endswith(".py"):
            _compile(Source(file, operation.content))
        return operation.content, ()
    assert source is not None and pristine is not None
    edits = [item.edit for item in items if item.edit is not None]
    after, undo = _splice(pristine, items)
    if file.endswith(".py"):
        new = Source(file, after)
        _compile(new)
        check.only_intended(source, new, edits)
        for edit, names in check.unbound(new, edits):
            item = next(item for item in items if item.edit is edit)
            item.plan.drift(
                Drift("unbound", f"{item.plan.where} does not bind {', '.join(names)}, which the edit uses")
            )
    else:
        new = Source(file, after)
    for item in items:
        assert item.operation is not None
        if not item.operation.done(new):
            raise Drift("partial", f"after the edit its own condition does not hold: {item.operation.sought()}")
    if any(item.plan.state != PENDING for item in items):
        return pristine, ()
    return after, undo


def _splice(pristine: bytes, items: list[_Item]) -> tuple[bytes, tuple[Undo, ...]]:
    pieces: list[tuple[Splice, _Item]] = [
        (splice, item) for item in items if item.edit is not None for splice in item.edit.splices
    ]
    # Insertions at one place keep the order of the series: the sort is stable.
    pieces.sort(key=lambda piece: (piece[0].start, piece[0].end))
    out, undo, position = bytearray(), [], 0
    for splice, item in pieces:
        if splice.start < position:
            raise Drift("overlap", f"{item.patch['id']} edits a place that another edit of this file changes")
        out += pristine[position : splice.start]
        undo.append(Undo(len(out), len(splice.text), pristine[splice.start : splice.end]))
        out += splice.text
        position = splice.end
    out += pristine[position:]
    return bytes(out), tuple(undo)


def _compile(source: Source) -> None:
    try:
        compile(source.tree, source.path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise Drift("syntax", f"the edited {source.path} does not compile: {error}") from None


def refusal(problems: Iterable[tuple[PatchPlan, EditPlan | None]]) -> list[str]:
    """One paragraph per problem: patch, file, what was looked for, nearest candidate."""
    lines = []
    for patch, edit in problems:
        if edit is None:
            reason = (
                "some edits are pending and some are upstream; list them as `independent: true` if that is right"
                if patch.state == "drift:partial"
                else f"is required but {patch.state} here; make it optional or drop it from the profile"
            )
            lines.append(f"{patch.id}: {reason}")
            continue
        text = f"{patch.id}: {edit.file}: {edit.where}: {edit.state}: {edit.message}"
        if edit.nearest is not None:
            text += f" — nearest: {edit.file}:{edit.nearest.line}: {edit.nearest.where}: {edit.nearest.text}"
        lines.append(text)
    return lines
