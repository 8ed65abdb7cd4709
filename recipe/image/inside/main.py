"""Runs every check and writes what they say, and what is installed.

`python3 checks.pyz --site DIR --root DIR --request FILE --out DIR`
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from . import added, extensions, imports, packages, patches, platform, request, serve, tools, versions
from .result import FAIL, Result, skipped

# The cheap ones first; all of them run, so that all that is wrong is told at once.
_CHECKS: dict[str, Callable[[request.Request], Result]] = {
    "platform": tools.machine,
    patches.CHECK: patches.check,
    versions.CHECK: versions.check,
    extensions.CHECK: extensions.check,
    "deepgemm": tools.headers,
    "compiler": tools.compiler,
    imports.CHECK: imports.check,
    serve.CHECK: serve.check,
}
# As the program that builds ends: for what the user wrote, and for all that stands against the image.
_USAGE, _NOT_DONE = 1, 2


def main() -> int:
    """Run the checks, or with --imports only import modules. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="checks", description=__doc__)
    parser.add_argument("--imports", help="only import these modules (a,b) and print which of them fail")
    for option in ("site", "root", "request", "out"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    options = parser.parse_args()
    asked = request.load(options.request, options.site, options.root)
    os.environ.update(asked.environment)
    if not platform.missing():
        platform.stand_in(asked)
    if options.imports:
        wrong = imports.failing(options.imports.split(","))
        print(json.dumps({name: failure.error for name, failure in wrong.items()}))
        return 0
    options.out.mkdir(exist_ok=True)
    # First of all, because what the checks leave behind is not in the image.
    added.copy(Path("/"), options.root, options.out / "files", (options.out,))
    patches.copy(asked.site, options.out / "files")
    results = [_run(check, run, asked) for check, run in _CHECKS.items()]
    written: dict[str, object] = {
        "checks.json": [result.to_json() for result in results],
        "packages.json": packages.installed(),
    }
    written["patches.json"] = patches.manifest(asked.site)
    for name, document in written.items():
        (options.out / name).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for result in results:
        print(f"{result.check}: {result.verdict}" + (f": {result.detail}" if result.detail else ""))
    failed = [result for result in results if result.verdict == FAIL]
    for result in failed:
        print("\n".join(f"check {result.check}: {problem}" for problem in result.problems), file=sys.stderr)
    if not failed:
        return 0
    return _USAGE if all(result.check == serve.CHECK for result in failed) else _NOT_DONE


def _run(check: str, run: Callable[[request.Request], Result], asked: request.Request) -> Result:
    try:
        return run(asked)
    except Exception as error:
        traceback.print_exc()
        return skipped(check, f"it broke: {type(error).__name__}: {' '.join(str(error).split())[:200]}")


if __name__ == "__main__":
    raise SystemExit(main())
