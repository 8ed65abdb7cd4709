"""An installed tree of packages: which distribution owns a file, which version it has, what RECORD says.

Reads only. Nothing outside the folder is followed: paths are relative, without `..` and without symbolic links.
"""

from __future__ import annotations

import base64
import csv
import email.parser
import hashlib
import io
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

from . import manifest
from .errors import MISMATCH, NOT_DONE, USAGE, ApplierError


class Sources(Protocol):
    """What planning needs to know of a set of sources."""

    version: str
    manifest: manifest.Manifest | None

    def read(self, file: str) -> bytes | None:
        """The file's bytes as they are now; None when it does not exist."""

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        """Whether these sources are a release's own archive and its list of hashes has these bytes."""

    def files(self) -> Iterable[str]:
        """The paths of the files of vLLM's distribution, for saying what a missing one may be called now."""


class Tree:
    """A site-packages folder. `vllm` is the distribution that owns `vllm/__init__.py`.

    Errors: ApplierError(1) when the folder holds no vLLM, (4) when it does not say which.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reload()

    def reload(self) -> None:
        """Read again what was read of the folder."""
        root = self.root
        self._records: dict[str, bytes] = {}
        self._owners: dict[str, str | None] = {}
        owner = self.owner("vllm/__init__.py")
        if owner is None:
            raise ApplierError(
                USAGE,
                "no installed distribution owns vllm/__init__.py",
                where=str(root),
                hint="name a virtual environment or site-packages folder with vLLM in it",
            )
        self.dist_info = owner
        self.version = _version(root / owner)
        path = root / owner / manifest.NAME
        self.manifest = manifest.loads(path.read_bytes(), str(path)) if path.is_file() else None

    def read(self, file: str) -> bytes | None:
        path = self.path(file)
        return path.read_bytes() if path.is_file() else None

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        # RECORD describes what is on disk, also after somebody rewrote both: it proves nothing here.
        return False

    def files(self) -> Iterable[str]:
        return record_rows(self.record(self.dist_info))

    def path(self, file: str) -> Path:
        """The file's path. Errors: ApplierError(2) when it would leave the tree or passes a symbolic link."""
        check_relative(file)
        path = self.root
        for part in PurePosixPath(file).parts:
            path = path / part
            if path.is_symlink():
                raise ApplierError(NOT_DONE, "is a symbolic link; links are not followed", where=str(path))
        return path

    def owner(self, file: str) -> str | None:
        """Name of the dist-info folder whose RECORD lists the file; None when no distribution does."""
        if file not in self._owners:
            self._owners[file] = self._find_owner(file)
        return self._owners[file]

    def record(self, dist_info: str) -> bytes:
        if dist_info not in self._records:
            path = self.root / dist_info / "RECORD"
            self._records[dist_info] = path.read_bytes() if path.is_file() else b""
        return self._records[dist_info]

    def _find_owner(self, file: str) -> str | None:
        top = PurePosixPath(file).parts[0].lower()
        folders = sorted(
            (path.name for path in self.root.glob("*.dist-info") if path.is_dir()),
            key=lambda name: (not name.lower().startswith(top), name),
        )
        rows = (f"\n{file},".encode(), f'\n"{file}",'.encode())
        return next((name for name in folders if any(row in b"\n" + self.record(name) for row in rows)), None)


def check_relative(file: str) -> None:
    """Errors: ApplierError(1) for a path that is absolute, has `..`, or is not in normal form."""
    path = PurePosixPath(file)
    plain = file.isprintable() and "\\" not in file and str(path) == file
    if path.is_absolute() or ".." in path.parts or not path.parts or not plain:
        raise ApplierError(USAGE, f"{file!r} is not a plain relative path", hint="write it as vllm/module.py")


def check_patchable(file: str, *, new: bool = False) -> None:
    """Errors: ApplierError(1) for a path that is not plain, for what installers and the interpreter keep for
    themselves, and for a `new` file outside of vLLM, whose record could not list it rightly."""
    check_relative(file)
    folders = PurePosixPath(file).parts[:-1]
    if file.endswith((".pyc", ".pth")) or any(part.endswith((".dist-info", "__pycache__")) for part in folders):
        raise ApplierError(USAGE, f"{file!r} is no file of a package", hint="write it as vllm/module.py")
    if new and folders[:1] != ("vllm",):
        raise ApplierError(USAGE, f"{file!r} is no place for a new file", hint="write it as vllm/module.py")


def _version(dist_info: Path) -> str:
    path = dist_info / "METADATA"
    version = email.parser.BytesHeaderParser().parsebytes(path.read_bytes())["Version"] if path.is_file() else None
    if version is None:
        message = "names no version" if path.exists() else "is missing"
        raise ApplierError(MISMATCH, message, where=str(path), hint="install the distribution afresh")
    return str(version)


def record_hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


def record_rows(record: bytes) -> dict[str, tuple[str, str]]:
    """path → (hash, size) as written in a RECORD file. Errors: ApplierError(4) when it cannot be read as one."""
    try:
        rows = csv.reader(io.StringIO(record.decode("utf-8", "surrogateescape")))
        return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}
    except csv.Error as error:
        raise ApplierError(MISMATCH, f"RECORD is damaged: {error}", hint="install the distribution afresh") from None


def record_row(record: bytes, path: str, data: bytes) -> str:
    """The row of a file, with the line ending that this RECORD has."""
    text = io.StringIO()
    newline = "\r\n" if b"\r\n" in record else "\n"
    csv.writer(text, lineterminator=newline).writerow([path, record_hash(data), str(len(data))])
    return text.getvalue()


def replace_rows(record: bytes, rows: Mapping[str, str | None]) -> tuple[bytes, dict[str, str | None]]:
    """Put `rows` (as written, with their line ending) in place of those of the same paths; None takes one away.

    Returns the new RECORD and the rows that lead back from it. All other bytes stay; a new row goes before RECORD's
    own.
    """
    left = dict(rows)
    before: dict[str, str | None] = {}
    out: list[str] = []
    own = 0
    # Surrogates keep what is not UTF-8.
    for line in io.StringIO(record.decode("utf-8", "surrogateescape"), newline=""):
        path = next(csv.reader([line]))[0] if line.startswith('"') else line.partition(",")[0]
        if path in left:
            before[path] = line
            out.append(left.pop(path) or "")
            continue
        if path.endswith(".dist-info/RECORD"):
            own = len(out)
        out.append(line)
    added = {path: row for path, row in sorted(left.items()) if row is not None}
    out[own:own] = added.values()
    return "".join(out).encode("utf-8", "surrogateescape"), before | dict.fromkeys(added)
