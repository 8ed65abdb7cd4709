"""The record of an application: `PATCHES.json` in the dist-info of the patched distribution.

It holds what was written and how to take it back: for each file the sha256 before and after, and for each edit
the bytes that it replaced. No clock and no absolute path, so that two applications give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from .errors import MISMATCH, ApplierError

NAME = "PATCHES.json"
SCHEMA = 1


@dataclass(frozen=True)
class Undo:
    """One replaced piece: at `start` of the new file `length` bytes stand for `old`."""

    start: int
    length: int
    old: bytes


@dataclass(frozen=True)
class FileRecord:
    """sha256 before (None: the file is new) and after, and the pieces that lead back."""

    before: str | None
    after: str
    undo: tuple[Undo, ...]
    replaced: bytes | None = None

    def reverse(self, path: str, data: bytes) -> bytes | None:
        """Give the bytes from before the application; None for a file that was new.

        Errors: ApplierError(4) when `data` is not what was written, or does not lead back to what was.
        """
        if sha256(data) != self.after:
            hint = "put back what was written, or install the distribution afresh"
            raise ApplierError(MISMATCH, "the file was changed after it was patched", where=path, hint=hint)
        if self.before is None:
            return None
        if self.replaced is not None:
            return self.replaced
        out, position = bytearray(), 0
        for piece in self.undo:
            out += data[position : piece.start] + piece.old
            position = piece.start + piece.length
        out += data[position:]
        if sha256(bytes(out)) != self.before:
            raise ApplierError(MISMATCH, "the recorded edits do not lead back to the original", where=path)
        return bytes(out)


@dataclass(frozen=True)
class RecordUndo:
    """A RECORD file before the application: its sha256, and by path the rows that were replaced, as they were
    written (None: there was none)."""

    sha256: str
    rows: dict[str, str | None]


@dataclass(frozen=True)
class Manifest:
    """patchset: sha256 of the patch set; vllm: the version it was compiled for; patches: states as in `plan`;
    records: what leads every changed RECORD file back, by dist-info folder."""

    patchset: str
    vllm: str
    patches: dict[str, Any]
    files: dict[str, FileRecord]
    records: dict[str, RecordUndo]

    def dumps(self) -> bytes:
        files = {
            path: {
                "before": record.before,
                "after": record.after,
                "undo": [[piece.start, piece.length, _text(piece.old)] for piece in record.undo],
                **({} if record.replaced is None else {"replaced": _text(record.replaced)}),
            }
            for path, record in self.files.items()
        }
        document = {
            "schema": SCHEMA,
            "patchset": self.patchset,
            "vllm": self.vllm,
            "patches": self.patches,
            "files": files,
            "records": {name: {"sha256": undo.sha256, "rows": undo.rows} for name, undo in self.records.items()},
        }
        return (json.dumps(document, sort_keys=True, indent=1, ensure_ascii=True) + "\n").encode()


def loads(data: bytes, where: str) -> Manifest:
    """Read a manifest. Errors: ApplierError(4) when it is damaged or of another schema."""
    try:
        document = json.loads(data)
        if document["schema"] != SCHEMA:
            raise ApplierError(
                MISMATCH,
                f"manifest schema {document['schema']!r} is not {SCHEMA}",
                where=where,
                hint="undo it with the version of the applier that wrote it",
            )
        return Manifest(
            document["patchset"],
            document["vllm"],
            document["patches"],
            {
                path: FileRecord(
                    entry["before"],
                    entry["after"],
                    tuple(Undo(start, length, _bytes(old)) for start, length, old in entry["undo"]),
                    _bytes(entry["replaced"]) if "replaced" in entry else None,
                )
                for path, entry in document["files"].items()
            },
            {name: RecordUndo(entry["sha256"], entry["rows"]) for name, entry in document["records"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"the manifest is damaged ({error!r})"
        raise ApplierError(MISMATCH, message, where=where, hint="install the distribution afresh") from None


def gone(file: str) -> ApplierError:
    """Why a patched file that is not there any more leads nowhere."""
    hint = "put back what was written, or install the distribution afresh"
    return ApplierError(MISMATCH, "the file was removed after it was patched", where=file, hint=hint)


def _text(data: bytes) -> str:
    # A file that an overlay replaces may be anything; surrogates keep the bytes that are not UTF-8.
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
