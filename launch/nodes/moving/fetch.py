"""Brings the files of a manifest into a folder, several at once; goes on behind the last byte of an earlier attempt."""

from __future__ import annotations

import fcntl
import http.client
import os
import queue
import shutil
import threading
import time
import urllib.error
import urllib.parse
from pathlib import Path

from launch.nodes.moving.folder import (
    CHUNK,
    MARKER,
    PARTS,
    TIMES,
    Hash,
    feed,
    inside,
    kept,
    marker,
    note,
    part_of,
    possible,
    size_of,
    time_of,
    times,
    verified_files,
    write,
)
from launch.nodes.moving.hub import denied, opened
from launch.nodes.moving.told import TELL_SECONDS, Failed, Json, Told

_LOCK = "lock"
_AT_ONCE = 4
# Attempts one after the other that bring no byte.
_ATTEMPTS = 6
_PASSING = (408, 425, 429, 500, 502, 503, 504)


def get(folder: Path, manifest: Json) -> None:
    """Bring all files of the manifest into the folder. Errors: Failed."""
    possible(manifest["files"])
    parts = folder / PARTS
    parts.mkdir(parents=True, exist_ok=True)
    with (parts / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed("busy", f"another program fetches into {folder}") from None
        _begin(folder, manifest)
        _get(folder, manifest)
        verified = verified_files(folder)
        write(folder, TIMES, {one["path"]: verified[one["path"]]["time"] for one in manifest["files"]})
        write(folder, MARKER, kept(manifest))
        # While it is locked: the next one's parts are not these.
        shutil.rmtree(parts)


def _begin(folder: Path, manifest: Json) -> None:
    """From here on the folder is no longer what was fetched before; files that stay need not be read again."""
    known = marker(folder)
    if known is None or known == kept(manifest):
        return
    written = times(folder)
    for one in known["files"]:
        if one in manifest["files"] and one["path"] in written:
            note(folder, one, written[one["path"]])
    (folder / MARKER).unlink()


def _get(folder: Path, manifest: Json) -> None:
    told = Told(sum(one["size"] for one in manifest["files"]))
    verified = verified_files(folder)
    # The largest first, so that the last ones to come are short.
    left: queue.SimpleQueue[Json] = queue.SimpleQueue()
    for one in sorted(manifest["files"], key=lambda one: -one["size"]):
        left.put(one)
    failures: list[BaseException] = []

    def work() -> None:
        while not failures:
            try:
                one = left.get_nowait()
            except queue.Empty:
                return
            try:
                _one(folder, manifest["base"], one, verified, told, failures)
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(TELL_SECONDS)
            # Also the way to learn that nobody listens any more.
            told.now()
    if failures:
        raise failures[0]
    told.now()


def _one(folder: Path, base: str, one: Json, verified: dict[str, Json], told: Told, stop: list[BaseException]) -> None:
    target, part = folder / one["path"], part_of(folder, one)
    if not inside(folder, target):
        raise Failed("mismatch", f"{one['path']!r} is outside the folder")
    if size_of(target) == one["size"]:
        written = time_of(target)
        if verified.get(one["path"]) == {**one, "time": written}:
            told.add(one["size"])
            return
        made = Hash(one)
        feed(made, target, told)
        if made.right:
            note(folder, one, written)
            return
        told.add(-one["size"])
    made, have = Hash(one), size_of(part) or 0
    if have > one["size"]:
        part.unlink()
        have = 0
    if have:
        feed(made, part, told)
    _download(base + urllib.parse.quote(one["path"]), part, one, have, made, told, stop)
    if not made.right:
        part.unlink()
        raise Failed("mismatch", f"{one['path']} has not the hash that was announced", "fetch it again")
    target.parent.mkdir(parents=True, exist_ok=True)
    part.replace(target)
    note(folder, one, time_of(target))


def _download(url: str, part: Path, one: Json, have: int, made: Hash, told: Told, stop: list[BaseException]) -> None:
    failed = 0
    with part.open("ab") as file:
        os.fchmod(file.fileno(), 0o644)
        while have < one["size"]:
            before = have
            reason = "the connection ended early"
            try:
                with opened(url, have) as answer:
                    if have and answer.status != 206:
                        # This server knows no ranges: what is here cannot be continued.
                        told.add(-have)
                        file.truncate(0)
                        have = before = 0
                        made.restart()
                    while have < one["size"] and (block := answer.read(min(CHUNK, one["size"] - have))):
                        file.write(block)
                        made.update(block)
                        have += len(block)
                        told.add(len(block))
                        if stop:
                            return
            except urllib.error.HTTPError as error:
                denied(error, url)
                if error.code not in _PASSING:
                    raise Failed("unreachable", f"{url} answers {error.code}") from None
                reason = f"it answers {error.code}"
            except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
            failed = 0 if have > before else failed + 1
            if have < one["size"]:
                if failed >= _ATTEMPTS:
                    raise Failed("unreachable", f"{url} cannot be fetched: {reason}", "run it again, it goes on there")
                time.sleep(min(2.0**failed, 30.0) / 4)
        file.flush()
        os.fsync(file.fileno())
