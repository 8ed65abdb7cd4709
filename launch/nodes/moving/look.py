"""What is in a model's folder, and what is lacking of a manifest."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from launch.nodes.moving.folder import PARTS, Hash, changed, feed, kept, marker, own, part_of, size_of
from launch.nodes.moving.told import Json, Told


def scan(folder: Path) -> Json:
    """The folder's own manifest: as it was fetched where that still fits, else by hashing every file."""
    known = marker(folder)
    if known is not None and _fits(folder, known):
        return known
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not own(path.relative_to(folder)))
    sizes = {path: path.stat().st_size for path in paths}
    told = Told(sum(sizes.values()))
    files = []
    for path in paths:
        made = hashlib.sha256()
        feed(made, path, told)
        files.append({"path": path.relative_to(folder).as_posix(), "size": sizes[path], "sha256": made.hexdigest()})
    return {"repository": None, "revision": None, "files": files}


def _fits(folder: Path, known: Json) -> bool:
    """Whether the files are those that were fetched; what was written since then is read."""
    if any(size_of(folder / one["path"]) != one["size"] for one in known["files"]):
        return False
    unsure = changed(folder, known)
    told = Told(sum(one["size"] for one in unsure))
    for one in unsure:
        made = Hash(one)
        feed(made, folder / one["path"], told)
        if not made.right:
            return False
    return True


def look(folder: Path, manifest: Json) -> Json:
    """`free` bytes of the file system, `have` bytes of the manifest's files, `done`: whether all are there as they were
    when their bytes had the right hash; `changed`: how many were written since then."""
    above = next(path for path in (folder, *folder.parents) if path.exists())
    have, done = 0, marker(folder) == kept(manifest) and not (folder / PARTS).exists()
    for one in manifest["files"]:
        size = size_of(folder / one["path"])
        done = done and size == one["size"]
        have += one["size"] if size == one["size"] else min(size_of(part_of(folder, one)) or 0, one["size"])
    unsure = len(changed(folder, manifest)) if done else 0
    return {
        "free": shutil.disk_usage(above).free,
        "have": have,
        "done": done and not unsure,
        "changed": unsure,
        "folder": str(folder),
    }
