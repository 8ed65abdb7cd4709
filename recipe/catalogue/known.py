"""What is known of a patch set without being part of it: the hashes it is locked to, the releases it was seen on."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from recipe.applier.patchset import PatchSet
from recipe.catalogue.model import Edit, PatchFile
from recipe.config.source import shown
from recipe.errors import Mismatch


def attach(patchset: PatchSet, patches: list[PatchFile], folder: Path) -> PatchSet:
    """The same patch set with its lock, where `patches.lock` in `folder` has one, and with the newest release on
    which each edit was looked at: one that its `when` names and that has a baseline of its file."""
    document = {**patchset.document}
    lock = _locks(folder).get(patchset.vllm, {}).get(patchset.sha256)
    if lock is not None:
        document["lock"] = lock
    document["seen"] = {patch.id: [_seen(edit, folder) for edit in patch.edits] for patch in patches}
    return PatchSet(document)


def recorded(path: Path) -> dict[str, Any]:
    """What `relock` wrote into a file. Errors: Mismatch when it is something else, as after a merge by hand."""
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Mismatch("is not as relock writes it", where=shown(path), hint="delete it, then make relock")
    return found


def _locks(folder: Path) -> dict[str, dict[str, dict[str, list[str | None]]]]:
    """release → patch set → file → [sha256 before, sha256 after]."""
    path = folder / "patches.lock"
    if not path.is_file():
        return {}
    return recorded(path)


def _seen(edit: Edit, folder: Path) -> str | None:
    range_ = SpecifierSet(edit.when)
    fitting = [
        version
        for version, files in _baselines(folder)
        if range_.contains(version, prereleases=True) and (edit.op == "overlay" or edit.file in files)
    ]
    return str(max(fitting)) if fitting else None


@cache
def _baselines(folder: Path) -> list[tuple[Version, frozenset[str]]]:
    return [
        (Version(path.stem.rpartition("-")[2]), frozenset(recorded(path)))
        for path in sorted((folder / "baselines").glob("*.json"))
    ]
