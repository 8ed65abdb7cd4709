"""The files that this image has and its base has not: what the build added or changed, for it to look through."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path


def copy(root: Path, base: Path, out: Path, without: tuple[Path, ...] = ()) -> None:
    """Copy them below `out`; what is below other mount points or one of `without` is not of the image."""
    for path in sorted(map(Path, _added(str(root), str(base), set(map(str, without))))):
        target = out / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            # Where it leads is its content.
            target.write_text(str(path.readlink()), encoding="utf-8", errors="surrogateescape")
        else:
            shutil.copyfile(path, target)


def _added(folder: str, base: str | None, without: set[str]) -> Iterator[str]:
    """With names and not with paths, because an image has a hundred thousand files."""
    before = {}
    if base is not None:
        with contextlib.suppress(OSError), os.scandir(base) as entries:
            before = {entry.name: entry for entry in entries}
    device = Path(folder).stat().st_dev
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.path in without:
                continue
            old = before.get(entry.name)
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                if found.st_dev == device:
                    yield from _added(entry.path, old.path if old else None, without)
            elif not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
                continue
            elif old is None or _key(old.stat(follow_symlinks=False)) != _key(found):
                yield entry.path


def _key(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_mode
