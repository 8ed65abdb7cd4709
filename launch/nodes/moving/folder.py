"""A model's folder on this machine: what was fetched into it, which files have the right hash, and since when.

A file has its name once all of its bytes have the right hash; until then it lies in PARTS. When each file was written
that had it is kept in TIMES: one with another time is read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import urllib.parse
from pathlib import Path
from typing import Any

from launch.nodes.moving.told import Failed, Json, Told

MARKER = ".hallmark-model.json"
PARTS = ".hallmark-parts"
TIMES = ".hallmark-model.json.times"
_VERIFIED = "verified"
_PROOF = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
CHUNK = 2**20


def possible(files: list[Json]) -> None:
    """Whether these can be a folder's files: what is listed elsewhere is not believed. Errors: Failed."""
    if not files:
        raise Failed("mismatch", "no file is listed")
    names: set[str] = set()
    for one in files:
        path, size = one["path"], one["size"]
        parts = path.split("/") if isinstance(path, str) else []
        if not parts or not path.isprintable() or {"", ".", ".."} & set(parts) or own(Path(path)):
            raise Failed("mismatch", f"{path!r} is listed, which is no name of a model's file")
        if not isinstance(size, int) or size < 0 or not _PROOF.fullmatch(proof(one)):
            raise Failed("mismatch", f"{path!r} is listed with {size!r} bytes and the hash {proof(one)!r}")
        if path in names:
            raise Failed("mismatch", f"{path!r} is listed twice")
        names.add(path)
    above = {path[:at] for path in names for at, letter in enumerate(path) if letter == "/"}
    if both := sorted(names & above):
        raise Failed("mismatch", f"{both[0]!r} is listed as a file and as a folder")


def marker(folder: Path) -> Json | None:
    """What was fetched into the folder; None when that is not known."""
    try:
        found = json.loads((folder / MARKER).read_bytes())
        possible(found["files"])
        return {key: found[key] for key in ("repository", "revision", "files")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, Failed):
        return None


def times(folder: Path) -> dict[str, int]:
    """When the files were written whose bytes had the right hash, in nanoseconds, by path."""
    try:
        return {str(path): int(time) for path, time in json.loads((folder / TIMES).read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def changed(folder: Path, manifest: Json) -> list[Json]:
    """The files that were written after their bytes had the right hash, or of which nobody knows."""
    known = times(folder)
    return [one for one in manifest["files"] if time_of(folder / one["path"]) != known.get(one["path"], -1)]


def verified_files(folder: Path) -> dict[str, Json]:
    """Files whose hash was right in an earlier attempt, or of the last manifest, with the `time` they were written."""
    written = times(folder)
    known = (marker(folder) or {"files": []})["files"]
    found = {one["path"]: {**one, "time": written.get(one["path"], -1)} for one in known}
    try:
        lines = (folder / PARTS / _VERIFIED).read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        try:
            one = json.loads(line)
            found[one["path"]] = one
        except (ValueError, KeyError, TypeError):
            # Torn off in the middle.
            continue
    return found


def note(folder: Path, one: Json, time: int | None) -> None:
    with (folder / PARTS / _VERIFIED).open("a") as file:
        file.write(json.dumps({**one, "time": time}) + "\n")


def write(folder: Path, name: str, value: Json) -> None:
    part = folder / f"{MARKER}.part"
    part.write_text(json.dumps(value) + "\n")
    part.replace(folder / name)


def kept(manifest: Json) -> Json:
    return {"repository": manifest["repository"], "revision": manifest["revision"], "files": manifest["files"]}


class Hash:
    """sha256, or the sha1 that git gives a blob."""

    def __init__(self, one: Json) -> None:
        self._one = one
        self.restart()

    def restart(self) -> None:
        self._made = hashlib.sha256() if "sha256" in self._one else hashlib.sha1(usedforsecurity=False)
        if "sha256" not in self._one:
            self._made.update(b"blob %d\0" % self._one["size"])

    def update(self, block: bytes) -> None:
        self._made.update(block)

    @property
    def right(self) -> bool:
        return self._made.hexdigest() == proof(self._one)


def proof(one: Json) -> str:
    return str(one.get("sha256") or one["sha1"])


def feed(made: Any, path: Path, told: Told) -> None:
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            made.update(block)
            told.add(len(block))
            told.now()


def part_of(folder: Path, one: Json) -> Path:
    # Of its content too: what was begun of another revision is not continued.
    # Shortened, because a file's name has 255 bytes.
    name = hashlib.sha256(one["path"].encode()).hexdigest()
    return folder / PARTS / f"{urllib.parse.quote(one['path'], safe='')[:100]}.{name[:16]}.{proof(one)[:16]}"


def own(path: Path) -> bool:
    return path.parts[0] in (MARKER, TIMES, PARTS, f"{MARKER}.part")


def inside(folder: Path, target: Path) -> bool:
    return Path(os.path.normpath(target)).is_relative_to(os.path.normpath(folder)) and target != folder


def size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def time_of(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
