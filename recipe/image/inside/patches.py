"""Whether the manifest records the patch set that was to be applied, and in which state each patch is."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from .request import Request
from .result import Result, judged

CHECK = "patches"
_GOOD = ("applied", "upstreamed", "not-applicable")


def manifest(site: Path) -> dict[str, Any] | None:
    """The record of the application in this tree; None when there is none."""
    found = sorted(site.glob("*.dist-info/PATCHES.json"))
    return dict(json.loads(found[0].read_text(encoding="utf-8"))) if found else None


def check(request: Request) -> Result:
    found = manifest(request.site)
    if found is None:
        return judged(CHECK, "", ["no manifest was written — build without the cache (`docker builder prune`)"])
    problems = []
    if found["patchset"] != request.patchset:
        problems.append(f"patch set {found['patchset'][:8]} is there, not {request.patchset[:8]} — build again")
    states = {id: patch["state"] for id, patch in found["patches"].items()}
    problems += [
        f"{id}: is {state} — see `hallmark plan` for every edit" for id, state in states.items() if state not in _GOOD
    ]
    counted = Counter(states.values())
    return judged(CHECK, ", ".join(f"{number} {state}" for state, number in sorted(counted.items())), problems)


def copy(site: Path, out: Path) -> None:
    """Copy every file that the application wrote, for the build to look through."""
    found = manifest(site) or {"files": {}, "records": {}}
    names = [*found["files"], *(f"{name}/RECORD" for name in found["records"])]
    names += [path.relative_to(site).as_posix() for path in site.glob("*.dist-info/PATCHES.json")]
    for path in (site / name for name in names):
        if path.is_file():
            target = out / path.relative_to(path.anchor)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
