"""Whether every patched module imports with this image's own Python."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import patches, platform
from .request import Request
from .result import Result, judged, skipped

CHECK = "imports"
_SECONDS = 600


class Failure(NamedTuple):
    """Why a module does not import; `files`: where the error went through, by their paths, where it arose first."""

    error: str
    files: list[str]


def check(request: Request) -> Result:
    reason = platform.missing()
    if reason:
        return skipped(CHECK, reason)
    found = patches.manifest(request.site) or {"files": {}, "patches": {}}
    modules = {_module(file): file for file in sorted(found["files"]) if file.endswith(".py")}
    wrong = failing(modules)
    # What does not import in the base image either says nothing about the patches.
    also = _failing_in_base(request, list(wrong)) if wrong else {}
    if also and len(also) == len(wrong):
        name, error = next(iter(also.items()))
        return skipped(
            CHECK, f"{len(also)} of {len(modules)} modules do not import in the base image either: {name}: {error}"
        )
    problems = [_problem(request, found, modules[name], failure) for name, failure in wrong.items() if name not in also]
    # One patched file may keep many modules from importing.
    return judged(CHECK, f"{len(modules)} modules", list(dict.fromkeys(problems)))


def failing(modules: Iterable[str]) -> dict[str, Failure]:
    """The modules that do not import, with their errors."""
    found = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException as error:
            said = " ".join(traceback.format_exception_only(type(error), error)[-1].split())
            frames = traceback.extract_tb(error.__traceback__)
            found[name] = Failure(said, [frame.filename for frame in reversed(frames)])
    return found


def _problem(request: Request, manifest: dict[str, Any], own: str, failure: Failure) -> str:
    """Names the patched file where the error arose, and the patches that changed it, by their lines in the profile."""
    patched = {str(request.site / file): file for file in manifest["files"]}
    file = next((patched[path] for path in failure.files if path in patched), own)
    ids = [id for id, patch in manifest["patches"].items() if any(edit["file"] == file for edit in patch["edits"])]
    places = [f"{request.patches[id]}: {id}" for id in ids if id in request.patches]
    return f"{', '.join([*places, file])}: does not import: {failure.error} — correct the patch"


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _failing_in_base(request: Request, modules: list[str]) -> dict[str, str]:
    """Those that fail with the base's vLLM in the same surroundings, with their errors."""
    words = [sys.executable, "-B", sys.argv[0], "--imports", ",".join(modules), *sys.argv[1:]]
    environment = {**os.environ, "PYTHONPATH": str(request.base)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    lines = done.stdout.splitlines()
    # Without an answer nothing is known about the base, and the failures stand.
    return dict(json.loads(lines[-1])) if done.returncode == 0 and lines else {}
