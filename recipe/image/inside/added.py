"""The files that this image has and its base has not: what the build added or changed, for it to look through."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path


def copy(root: Path, base: Path, out: Path, without: tuple[Path, ...] = ()) -> None:
    """Copy them below `out`; what is below other mount points or one of `without` is not of the image."""
    for path in sorted(_added(root, base, set(without))):
        target = out / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            # Where it leads is its content.
            target.write_text(str(path.readlink()), encoding="utf-8", errors="surrogateescape")
        else:
            shutil.copyfile(path, target)


def _added(folder: Path, base: Path, without: set[Path]) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path, found = Path(entry.path), entry.stat(follow_symlinks=False)
            if path in without:
                continue
            if stat.S_ISDIR(found.st_mode):
                if not os.path.ismount(path):
                    yield from _added(path, base / entry.name, without)
            elif (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)) and _differs(found, base / entry.name):
                yield path


def _differs(found: os.stat_result, before: Path) -> bool:
    try:
        old = before.lstat()
    except OSError:
        return True
    return (found.st_size, found.st_mtime_ns, found.st_mode) != (old.st_size, old.st_mtime_ns, old.st_mode)
