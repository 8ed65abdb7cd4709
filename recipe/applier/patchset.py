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
    baseline {file: [sha256 of the file in a release of this version]}."""

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

    def canonical(self) -> bytes:
        return json.dumps(self.document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.canonical()).hexdigest()


def loads(data: bytes, where: str) -> PatchSet:
    """Errors: ApplierError(1) when it is not a patch set of this schema."""
    try:
        document: dict[str, Any] = json.loads(data)
        if document["schema"] != SCHEMA:
            raise ApplierError(USAGE, f"patch set schema {document['schema']!r} is not {SCHEMA}", where=where)
        if missing := {"vllm", "patches", "baseline"} - set(document):
            raise KeyError(*sorted(missing))
        return PatchSet(document)
    except (ValueError, KeyError, TypeError) as error:
        raise ApplierError(USAGE, f"not a compiled patch set ({error!r})", where=where) from None


def public(version: str) -> str:
    """A version without its local part: `0.32.0+cpu` → `0.32.0`."""
    return version.partition("+")[0]
