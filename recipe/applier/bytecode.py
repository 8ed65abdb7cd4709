"""Compiled files beside rewritten sources: what was compiled from the old bytes must never be imported again."""

from __future__ import annotations

import importlib.util
import os
import py_compile
from collections.abc import Iterable
from pathlib import Path


def refresh(sources: Iterable[Path]) -> None:
    """Replace the compiled files of these sources by ones that are checked against the source's hash.

    Those of other Pythons, of sources that are gone and those that cannot be made are removed: the next import
    makes them again.
    """
    for source in sources:
        cache = source.parent / "__pycache__"
        if source.suffix != ".py" or cache.is_symlink():
            continue
        ours = Path(importlib.util.cache_from_source(str(source))).name
        stale = list(cache.glob(f"{source.stem}.*.pyc"))
        born = cache.stat().st_mtime_ns if stale else 0
        for compiled in stale:
            if compiled.name != ours or not source.exists() or not _compile(source, compiled):
                compiled.unlink(missing_ok=True)
        if stale:
            # No time of this run stays, so that two builds of an image give the same layer.
            os.utime(cache, ns=(born, born))


def _compile(source: Path, compiled: Path) -> bool:
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    try:
        py_compile.compile(str(source), str(compiled), doraise=True, invalidation_mode=mode, quiet=2)
        mtime_ns = source.stat().st_mtime_ns
        os.utime(compiled, ns=(mtime_ns, mtime_ns))
    except (OSError, py_compile.PyCompileError):
        return False
    return True
