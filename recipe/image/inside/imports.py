"""Whether every patched module imports with this image's own Python."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterable

from . import patches, platform
from .request import Request
from .result import Result, judged, skipped

CHECK = "imports"
_SECONDS = 600


def check(request: Request) -> Result:
    reason = platform.missing()
    if reason:
        return skipped(CHECK, reason)
    found = patches.manifest(request.site)
    files = sorted(file for file in (found or {}).get("files", {}) if file.endswith(".py"))
    modules = [file[: -len(".py")].replace("/", ".") for file in files]
    wrong = failing(name[: -len(".__init__")] if name.endswith(".__init__") else name for name in modules)
    # What does not import in the base image either says nothing about the patches.
    also = _failing_in_base(request, list(wrong)) if wrong else {}
    problems = [
        f"{name}: does not import: {error} — correct the patch that changes it"
        for name, error in wrong.items()
        if name not in also
    ]
    if also and not problems:
        name, error = next(iter(also.items()))
        return skipped(
            CHECK, f"{len(also)} of {len(modules)} modules do not import in the base image either: {name}: {error}"
        )
    return judged(CHECK, f"{len(modules)} modules", problems)


def failing(modules: Iterable[str]) -> dict[str, str]:
    """The modules that do not import, with their errors."""
    found = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException as error:
            found[name] = " ".join(traceback.format_exception_only(type(error), error)[-1].split())
    return found


def _failing_in_base(request: Request, modules: list[str]) -> dict[str, str]:
    """Those that fail with the base's vLLM in the same surroundings."""
    words = [sys.executable, "-B", sys.argv[0], "--imports", ",".join(modules), *sys.argv[1:]]
    environment = {**os.environ, "PYTHONPATH": str(request.base)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    lines = done.stdout.splitlines()
    # Without an answer nothing is known about the base, and the failures stand.
    return dict(json.loads(lines[-1])) if done.returncode == 0 and lines else {}
