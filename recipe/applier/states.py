"""What a plan says: the state of every edit and patch, the files to write, and the reasons against it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .errors import Candidate, Drift
from .manifest import FileRecord, Manifest, RecordUndo
from .patchset import PatchSet

APPLIED, PENDING, UPSTREAMED = "applied", "pending", "upstreamed"
NOT_APPLICABLE, ALREADY_UNKNOWN = "not-applicable", "already-unknown"


@dataclass
class EditPlan:
    """State of one edit; for a drift `message`, what was looked for and the nearest candidate. `seen` is the newest
    release that the edit was looked at on."""

    file: str
    where: str
    op: str
    state: str = PENDING
    message: str | None = None
    nearest: Candidate | None = None
    seen: str | None = None

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
            "seen": self.seen,
            "nearest": None
            if nearest is None
            else {
                "file": nearest.file or self.file,
                "line": nearest.line,
                "where": nearest.where,
                "text": nearest.text,
            },
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

    def manifest(self, records: dict[str, RecordUndo]) -> Manifest:
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
        if edit.nearest is not None and edit.nearest.file is not None:
            text += f" — nearest: {edit.nearest.file}"
        elif edit.nearest is not None:
            text += f" — nearest: {edit.file}:{edit.nearest.line}: {edit.nearest.where}: {edit.nearest.text}"
        if edit.seen is not None and edit.state.startswith("drift:"):
            text += f" (last fitted {edit.seen})"
        lines.append(text)
    return lines
