"""The committed result of an audit, recipe/patches/audit.json: what the page and the lint know without the wheels."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recipe.catalogue import compile as catalogue
from recipe.catalogue.audit import Column
from recipe.catalogue.compile import Patch, compile_patches
from recipe.catalogue.releases import Release
from recipe.config.source import shown
from recipe.errors import Mismatch


@dataclass(frozen=True)
class Record:
    """An audit in short. `patches`: the digest of each patch that was judged. By release: `wheels` the sha256 of the
    wheel, `states` and `widened` {patch: state}, `together` what is wrong with the patches together."""

    patches: dict[str, str] = field(default_factory=dict)
    wheels: dict[str, str] = field(default_factory=dict)
    states: dict[str, dict[str, str]] = field(default_factory=dict)
    widened: dict[str, dict[str, str]] = field(default_factory=dict)
    together: dict[str, list[str]] = field(default_factory=dict)

    def text(self) -> str:
        document = {
            "patches": self.patches,
            "wheels": self.wheels,
            "releases": self.states,
            "widened": self.widened,
            "together": self.together,
        }
        return json.dumps(document, indent=1) + "\n"

    def differences(self, found: "Record") -> list[str]:
        """What an audit of some releases found otherwise than this record, a line each."""
        lines = []
        for id in sorted({*self.patches, *found.patches}):
            if self.patches.get(id) != found.patches.get(id):
                lines.append(f"{id}: is not the patch that was audited")
        for name, cells in found.states.items():
            for id, state in cells.items():
                recorded = self.states.get(name, {}).get(id)
                if recorded != state:
                    lines.append(f"{id} on {name}: {state}, recorded {recorded or 'nothing'}")
                elif self.widened.get(name, {}).get(id) != found.widened.get(name, {}).get(id):
                    lines.append(f"{id} on {name}: what it would be with a wider range is recorded otherwise")
            if self.wheels.get(name) != found.wheels.get(name):
                lines.append(f"{name}: was audited on another wheel")
            if self.together.get(name, []) != found.together.get(name, []):
                lines.append(f"{name}: how the patches go together is recorded otherwise")
        return lines


def path() -> Path:
    """Where the record of the catalogue is."""
    return catalogue.PATCHES / "audit.json"


def load() -> Record:
    """The committed record; an empty one when there is none yet. Errors: Mismatch for a file that is none."""
    file = path()
    if not file.is_file():
        return Record()
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return Record(data["patches"], data["wheels"], data["releases"], data["widened"], data["together"])
    except (ValueError, KeyError, TypeError):
        hint = "write it again: hallmark audit --out recipe/patches/audit.json"
        raise Mismatch("is not the record of an audit", where=shown(file), hint=hint) from None


def make(patches: Sequence[Patch], columns: Iterable[Column], releases: Iterable[Release]) -> Record:
    """The record of the columns that are listed releases."""
    pinned = {release.name: release.sha256 for release in releases}
    kept = [column for column in columns if column.name in pinned]
    return Record(
        {patch.value.id: digest(patch) for patch in patches},
        {column.name: pinned[column.name] for column in kept},
        {column.name: {id: cell.state for id, cell in column.cells.items()} for column in kept},
        {column.name: {id: cell.widened.state for id, cell in column.cells.items() if cell.widened} for column in kept},
        {column.name: column.together for column in kept if column.together},
    )


def digest(patch: Patch) -> str:
    """sha256 of all that decides what a patch does: its edits, ranges, snippets and overlays, not its prose."""
    compiled = compile_patches([(patch, False)], "0").patches[0]
    for edit, spec in zip(patch.value.edits, compiled["edits"], strict=True):
        spec["applies"] = edit.when
    decides = {key: compiled[key] for key in ("id", "class", "independent", "edits")}
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
