"""A compiled patch set as the applier reads it: JSON, everything inlined, for one exact vLLM version."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from .errors import USAGE, ApplierError

SCHEMA = 1


@dataclass(frozen=True)
class PatchSet:
    """`document` keys: schema, vllm, patches [{id, class, required, independent, edits: [{op, file, applies, …}]}],
    baseline {file: [sha256 of the file in a release of this version]}.

    Two keys are about the patch set and not part of it: lock {file: [sha256 before, sha256 after]} (null where there
    is no file), and seen {patch id: [the newest release that each edit was looked at on, or null]}.
    """

    document: dict[str, Any]

    @property
    def vllm(self) -> str:
        return str(self.document["vllm"])

    @property
    def patches(self) -> list[dict[str, Any]]:
        return list(self.document["patches"])

    @property
    def baseline(self) -> dict[str, list[str]]:
        return dict(self.document["baseline"])

    @property
    def lock(self) -> dict[str, list[str | None]] | None:
        return self.document.get("lock")

    def seen(self, id: str, index: int) -> str | None:
        """The newest release that an edit of a patch was looked at on."""
        releases: list[str | None] = self.document.get("seen", {}).get(id, [])
        return releases[index] if index < len(releases) else None

    def canonical(self) -> bytes:
        return _canonical(self.document)

    @property
    def sha256(self) -> str:
        """The patch set's name; what is locked or was seen does not change it."""
        patches = {key: value for key, value in self.document.items() if key not in ("lock", "seen")}
        return hashlib.sha256(_canonical(patches)).hexdigest()


def _canonical(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def loads(data: bytes, where: str) -> PatchSet:
    """Errors: ApplierError(1) when it is not a patch set of this schema."""
    try:
        document: dict[str, Any] = json.loads(data)
        if document["schema"] != SCHEMA:
            raise ApplierError(USAGE, f"patch set schema {document['schema']!r} is not {SCHEMA}", where=where)
        _complete(document, {"vllm": str, "patches": list, "baseline": dict})
        for patch in document["patches"]:
            _complete(patch, {"id": str, "class": str, "required": bool, "independent": bool, "edits": list})
            for edit in patch["edits"]:
                _complete(edit, {"op": str, "file": str, "applies": bool})
        return PatchSet(document)
    except (ValueError, KeyError, TypeError) as error:
        raise ApplierError(USAGE, f"not a compiled patch set ({error!r})", where=where) from None


def _complete(document: Any, keys: dict[str, type]) -> None:
    """Errors: TypeError when it is no mapping with these keys and types of values."""
    for key, kind in keys.items():
        if not isinstance(document, dict) or not isinstance(document.get(key), kind):
            raise TypeError(f"{key} is not a {kind.__name__}")


def public(version: str) -> str:
    """A version without its local part: `0.32.0+cpu` → `0.32.0`."""
    return version.partition("+")[0]
