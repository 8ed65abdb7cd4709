"""Fetches, serves and lists the files of a model. Runs on a node as a program of its own: standard library only.

Actions: `list REPOSITORY REVISION` (of the model hub), `scan FOLDER`, `look FOLDER` (free bytes and what is there
already of a manifest), `get FOLDER` (a manifest's files), `serve FOLDER ADDRESS`. A manifest comes and goes as one line
of JSON: `repository`, `revision`, `files` (`path`, `size` in bytes, `sha256`, or `sha1` of a git blob); for `get` also
`base`, the address in front of each path. What is told goes to standard output, one JSON value a line.

A file has its name once all of its bytes have the right hash; until then it lies in `.hallmark-parts`, and the next
`get` goes on behind its last byte. When each file was written that had the right hash is kept in TIMES: one with
another time is read again. HALLMARK_TOKEN is the token of hub or peer.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import http.client
import http.server
import json
import os
import queue
import re
import shutil
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

MARKER = ".hallmark-model.json"
PARTS = ".hallmark-parts"
TIMES = ".hallmark-model.json.times"
_VERIFIED = "verified"
_LOCK = "lock"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PROOF = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CHUNK = 2**20
_AT_ONCE = 4
_PATIENCE = 60.0
# Attempts one after the other that bring no byte.
_ATTEMPTS = 6
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_TELL_SECONDS = 0.5
Json = dict[str, Any]


class Failed(Exception):
    """Ends the program; `kind`: mismatch, refused, unreachable or busy."""

    def __init__(self, kind: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind, self.hint = kind, hint


class _Redirects(urllib.request.HTTPRedirectHandler):
    """A token is for the host that it was given for, not for the storage that it sends its callers to."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and urllib.parse.urlsplit(newurl)[:2] != urllib.parse.urlsplit(req.full_url)[:2]:
            made.remove_header("Authorization")
        return made


_OPENER = urllib.request.build_opener(_Redirects)


def _open(url: str, offset: int = 0) -> Any:
    request = urllib.request.Request(url)
    token = os.environ.get("HALLMARK_TOKEN")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    return _OPENER.open(request, timeout=_PATIENCE)


def listing(repository: str, revision: str) -> Json:
    """What the hub has of a revision. Errors: Failed."""
    hub = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    url = f"{hub}/api/models/{repository}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"
    try:
        with _open(url) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        _denied(error, repository)
        raise Failed("unreachable", f"the model hub {hub} answers {error.code} for {repository}") from None
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Failed("unreachable", f"the model hub {hub} does not answer: {reason}") from None
    try:
        files = [_listed(one) for one in found["siblings"]]
        commit = str(found["sha"])
    except (KeyError, TypeError, AttributeError) as error:
        raise Failed("mismatch", f"the model hub {hub} does not answer as a hub does: {error!r}") from None
    if _COMMIT.fullmatch(commit) is None or (_COMMIT.fullmatch(revision) and commit != revision):
        raise Failed("mismatch", f"the model hub {hub} was asked for {revision} and answers with {commit!r}")
    _possible(files)
    base = f"{hub}/{repository}/resolve/{commit}/"
    return {"repository": repository, "revision": commit, "files": files, "base": base}


def _listed(one: Json) -> Json:
    large = one.get("lfs") or {}
    proof = {"sha256": large["sha256"]} if large else {"sha1": one["blobId"]}
    return {"path": one["rfilename"], "size": one["size"], **proof}


def _possible(files: list[Json]) -> None:
    """Whether these can be a folder's files: what is listed elsewhere is not believed. Errors: Failed."""
    if not files:
        raise Failed("mismatch", "no file is listed")
    names: set[str] = set()
    for one in files:
        path, size = one["path"], one["size"]
        parts = path.split("/") if isinstance(path, str) else []
        if not parts or not path.isprintable() or {"", ".", ".."} & set(parts) or _own(Path(path)):
            raise Failed("mismatch", f"{path!r} is listed, which is no name of a model's file")
        if not isinstance(size, int) or size < 0 or not _PROOF.fullmatch(_proof(one)):
            raise Failed("mismatch", f"{path!r} is listed with {size!r} bytes and the hash {_proof(one)!r}")
        if path in names:
            raise Failed("mismatch", f"{path!r} is listed twice")
        names.add(path)
    above = {path[:at] for path in names for at, letter in enumerate(path) if letter == "/"}
    if both := sorted(names & above):
        raise Failed("mismatch", f"{both[0]!r} is listed as a file and as a folder")


def scan(folder: Path) -> Json:
    """The folder's own manifest: as it was fetched where that still fits, else by hashing every file."""
    known = marker(folder)
    if known is not None and _fits(folder, known):
        return known
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not _own(path.relative_to(folder)))
    sizes = {path: path.stat().st_size for path in paths}
    told = Told(sum(sizes.values()))
    files = []
    for path in paths:
        made = hashlib.sha256()
        _feed(made, path, told)
        files.append({"path": path.relative_to(folder).as_posix(), "size": sizes[path], "sha256": made.hexdigest()})
    return {"repository": None, "revision": None, "files": files}


def _fits(folder: Path, known: Json) -> bool:
    """Whether the files are those that were fetched; what was written since then is read."""
    if any(_size(folder / one["path"]) != one["size"] for one in known["files"]):
        return False
    changed = _changed(folder, known)
    told = Told(sum(one["size"] for one in changed))
    for one in changed:
        made = _Hash(one)
        _feed(made, folder / one["path"], told)
        if not made.right:
            return False
    return True


def _changed(folder: Path, manifest: Json) -> list[Json]:
    """The files that were written after their bytes had the right hash, or of which nobody knows."""
    known = times(folder)
    return [one for one in manifest["files"] if _time(folder / one["path"]) != known.get(one["path"], -1)]


def times(folder: Path) -> dict[str, int]:
    """When the files were written whose bytes had the right hash, in nanoseconds, by path."""
    try:
        return {str(path): int(time) for path, time in json.loads((folder / TIMES).read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def marker(folder: Path) -> Json | None:
    """What was fetched into the folder; None when that is not known."""
    try:
        found = json.loads((folder / MARKER).read_bytes())
        _possible(found["files"])
        return {key: found[key] for key in ("repository", "revision", "files")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, Failed):
        return None


def look(folder: Path, manifest: Json) -> Json:
    """`free` bytes of the file system, `have` bytes of the manifest's files, `done`: whether all are there as they were
    when their bytes had the right hash; `changed`: how many were written since then."""
    above = next(path for path in (folder, *folder.parents) if path.exists())
    have, done = 0, marker(folder) == _kept(manifest) and not (folder / PARTS).exists()
    for one in manifest["files"]:
        size = _size(folder / one["path"])
        done = done and size == one["size"]
        have += one["size"] if size == one["size"] else min(_size(_part(folder, one)) or 0, one["size"])
    changed = len(_changed(folder, manifest)) if done else 0
    return {
        "free": shutil.disk_usage(above).free,
        "have": have,
        "done": done and not changed,
        "changed": changed,
        "folder": str(folder),
    }


def get(folder: Path, manifest: Json) -> None:
    """Bring all files of the manifest into the folder. Errors: Failed."""
    _possible(manifest["files"])
    parts = folder / PARTS
    parts.mkdir(parents=True, exist_ok=True)
    with (parts / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed("busy", f"another program fetches into {folder}") from None
        _begin(folder, manifest)
        _get(folder, manifest)
        verified = _verified(folder)
        _write(folder, TIMES, {one["path"]: verified[one["path"]]["time"] for one in manifest["files"]})
        _write(folder, MARKER, _kept(manifest))
        # While it is locked: the next one's parts are not these.
        shutil.rmtree(parts)


def _begin(folder: Path, manifest: Json) -> None:
    """From here on the folder is no longer what was fetched before; files that stay need not be read again."""
    known = marker(folder)
    if known is None or known == _kept(manifest):
        return
    written = times(folder)
    for one in known["files"]:
        if one in manifest["files"] and one["path"] in written:
            _note(folder, one, written[one["path"]])
    (folder / MARKER).unlink()


def _get(folder: Path, manifest: Json) -> None:
    told = Told(sum(one["size"] for one in manifest["files"]))
    verified = _verified(folder)
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
            thread.join(_TELL_SECONDS)
            # Also the way to learn that nobody listens any more.
            told.now()
    if failures:
        raise failures[0]
    told.now()


def _one(folder: Path, base: str, one: Json, verified: dict[str, Json], told: Told, stop: list[BaseException]) -> None:
    target, part = folder / one["path"], _part(folder, one)
    if not _inside(folder, target):
        raise Failed("mismatch", f"{one['path']!r} is outside the folder")
    if _size(target) == one["size"]:
        written = _time(target)
        if verified.get(one["path"]) == {**one, "time": written}:
            told.add(one["size"])
            return
        made = _Hash(one)
        _feed(made, target, told)
        if made.right:
            _note(folder, one, written)
            return
        told.add(-one["size"])
    made, have = _Hash(one), _size(part) or 0
    if have > one["size"]:
        part.unlink()
        have = 0
    if have:
        _feed(made, part, told)
    _download(base + urllib.parse.quote(one["path"]), part, one, have, made, told, stop)
    if not made.right:
        part.unlink()
        raise Failed("mismatch", f"{one['path']} has not the hash that was announced", "fetch it again")
    target.parent.mkdir(parents=True, exist_ok=True)
    part.replace(target)
    _note(folder, one, _time(target))


def _download(url: str, part: Path, one: Json, have: int, made: _Hash, told: Told, stop: list[BaseException]) -> None:
    failed = 0
    with part.open("ab") as file:
        os.fchmod(file.fileno(), 0o644)
        while have < one["size"]:
            before = have
            reason = "the connection ended early"
            try:
                with _open(url, have) as answer:
                    if have and answer.status != 206:
                        # This server knows no ranges: what is here cannot be continued.
                        told.add(-have)
                        file.truncate(0)
                        have = before = 0
                        made.restart()
                    while have < one["size"] and (block := answer.read(min(_CHUNK, one["size"] - have))):
                        file.write(block)
                        made.update(block)
                        have += len(block)
                        told.add(len(block))
                        if stop:
                            return
            except urllib.error.HTTPError as error:
                _denied(error, url)
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


class Told:
    """Counts bytes and tells how far it is, not too often."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self._lock = threading.Lock()
        self._next = 0.0

    def add(self, count: int) -> None:
        with self._lock:
            self.done += count

    def now(self) -> None:
        with self._lock:
            if time.monotonic() >= self._next or self.done == self.total:
                self._next = time.monotonic() + _TELL_SECONDS
                tell({"done": self.done, "total": self.total})


class _Hash:
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
        return self._made.hexdigest() == _proof(self._one)


def _proof(one: Json) -> str:
    return str(one.get("sha256") or one["sha1"])


def _feed(made: Any, path: Path, told: Told) -> None:
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            made.update(block)
            told.add(len(block))
            told.now()


def _kept(manifest: Json) -> Json:
    return {"repository": manifest["repository"], "revision": manifest["revision"], "files": manifest["files"]}


def _verified(folder: Path) -> dict[str, Json]:
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


def _note(folder: Path, one: Json, time: int | None) -> None:
    with (folder / PARTS / _VERIFIED).open("a") as file:
        file.write(json.dumps({**one, "time": time}) + "\n")


def _write(folder: Path, name: str, value: Json) -> None:
    part = folder / f"{MARKER}.part"
    part.write_text(json.dumps(value) + "\n")
    part.replace(folder / name)


def _time(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _part(folder: Path, one: Json) -> Path:
    # Of its content too: what was begun of another revision is not continued.
    # Shortened, because a file's name has 255 bytes.
    name = hashlib.sha256(one["path"].encode()).hexdigest()
    return folder / PARTS / f"{urllib.parse.quote(one['path'], safe='')[:100]}.{name[:16]}.{_proof(one)[:16]}"


def _own(path: Path) -> bool:
    return path.parts[0] in (MARKER, TIMES, PARTS, f"{MARKER}.part")


def _inside(folder: Path, target: Path) -> bool:
    return Path(os.path.normpath(target)).is_relative_to(os.path.normpath(folder)) and target != folder


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _denied(error: urllib.error.HTTPError, what: str) -> None:
    if error.code in (401, 403):
        hint = "accept the model's terms on the hub, and set HF_TOKEN to a token that may read it"
        raise Failed("refused", f"access to {what} is denied ({error.code})", hint) from None
    if error.code == 404:
        raise Failed("refused", f"there is no {what}", "check the profile's model and revision") from None


def serve(folder: Path, address: str) -> None:
    """Serve the folder to who knows the token until standard input ends."""
    token = f"Bearer {os.environ['HALLMARK_TOKEN']}"

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = folder / urllib.parse.unquote(self.path.lstrip("/"))
            given = self.headers.get("Authorization", "")
            size = _size(path)
            if not hmac.compare_digest(given.encode(), token.encode()):
                self.send_error(401)
            elif size is None or not _inside(folder, path):
                self.send_error(404)
            else:
                self._send(path, size)

        def _send(self, path: Path, size: int) -> None:
            start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(size - start))
            self.end_headers()
            with path.open("rb") as file:
                if size > start:
                    self.connection.sendfile(file, start)

        def log_message(self, format: str, *args: Any) -> None: ...

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

    with Server((address, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        tell({"port": server.server_address[1]})
        sys.stdin.read()
        server.shutdown()


def tell(value: Json) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _run(action: str, words: list[str]) -> None:
    if action == "list":
        tell({"manifest": listing(*words)})
        return
    folder = Path(words[0]).expanduser()
    if action == "scan":
        tell({"manifest": scan(folder)})
    elif action == "serve":
        serve(folder, words[1])
    elif action == "look":
        tell({"look": look(folder, json.loads(sys.stdin.readline()))})
    else:
        get(folder, json.loads(sys.stdin.readline()))
        tell({"ok": True})


def main() -> int:
    """Run one action; what ends it is told as `error` with its kind."""
    try:
        _run(sys.argv[1], sys.argv[2:])
    except BrokenPipeError:
        # Nobody listens: whoever asked is gone. What is here stays for the next attempt.
        os._exit(1)
    except Failed as error:
        tell({"error": {"kind": error.kind, "message": str(error), "hint": error.hint}})
        return 1
    except OSError as error:
        _out_of_order(error)
        return 1
    return 0


def _out_of_order(error: OSError) -> None:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "make room and run it again, it goes on there" if full else "see who owns that folder"
    message = f"{error.filename or 'the folder'}: {error.strerror or error}"
    tell({"error": {"kind": "refused", "message": message, "hint": hint}})


if __name__ == "__main__":
    raise SystemExit(main())
