"""Files in shared memory: what processes of this machine map, and removing what killed ones left.

A process that is killed cannot remove its own, and nothing else ever would.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_FOLDER = Path("/dev/shm")
_MAPPED = re.compile(r"^\S+ \S+ \S+ \S+ (\d+) +(/dev/shm/\S.*?)$", re.MULTILINE)


def mapped(pids: Iterable[int]) -> set[tuple[Path, int]]:
    """The files of shared memory that these processes map, by path and inode."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            text = Path(f"/proc/{pid}/maps").read_text(errors="replace")
            found |= {(Path(path), int(inode)) for inode, path in _MAPPED.findall(text)}
    return found


def remove(files: set[tuple[Path, int]]) -> None:
    """Remove those that are still there and that no process maps; a name that another file has by now stays."""
    left = {(path, inode) for path, inode in files if path.parent == _FOLDER and _inode(path) == inode}
    if left:
        left -= mapped(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    for path, _ in left:
        path.unlink(missing_ok=True)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
