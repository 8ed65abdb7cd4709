"""Remembers which layers were searched for which secrets, and found clean, without recording a secret.

A line of the record is a keyed hash over layer and secret. The key is in the state folder, for this user alone; each
secret goes through a slow hash first, so that whoever has both still cannot try many.
"""

import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress

from recipe.config import paths

# Counts up when secrets are looked for in other forms, or layers read in another way, than before.
_VERSION = b"2"
_LINE = 65
_COST = 2**14
_KEY = 32


def missing(layers: Iterable[str], needles: Mapping[str, frozenset[bytes]]) -> dict[str, frozenset[bytes]]:
    """Of these, by name, what at least one of the layers was not yet searched for."""
    known = [(layer, _known(layer)) for layer in layers]
    if not all(lines for _, lines in known):
        return dict(needles)
    return {
        name: forms
        for name, forms in needles.items()
        if (key := _slow(forms)) and any(_mark(key, layer) not in lines for layer, lines in known)
    }


def note(layers: Iterable[str], needles: Mapping[str, frozenset[bytes]]) -> None:
    """Remember that none of these is in any of the layers. What cannot be written is searched again."""
    keys = [_slow(forms) for forms in needles.values()]
    for layer in layers:
        text = "".join(f"{_mark(key, layer)}\n" for key in keys)
        try:
            path = paths.cache() / "searched" / layer.removeprefix("sha256:")
            path.parent.mkdir(parents=True, exist_ok=True)
            # One write behind the end, so that two builds at the same time do not disturb each other.
            with path.open("ab", buffering=0) as file:
                file.write(text.encode())
        except OSError:
            return


def _known(layer: str) -> set[str]:
    try:
        return set((paths.cache() / "searched" / layer.removeprefix("sha256:")).read_text().splitlines())
    except (OSError, UnicodeDecodeError):
        return set()


def _mark(key: bytes, layer: str) -> str:
    return hmac.digest(key, layer.encode(), "sha256").hex()


def _slow(forms: frozenset[bytes]) -> bytes:
    text = _VERSION + b"".join(len(form).to_bytes(8, "big") + form for form in sorted(forms))
    return hashlib.scrypt(text, salt=_key(), n=_COST, r=8, p=1, maxmem=2**26, dklen=32)


def _key() -> bytes:
    """The key of this user; one that cannot be kept counts for this time only, and so nothing is remembered."""
    path = paths.state() / "searched.key"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Of this user alone, and whole when it gets its name; one that came first stays.
            with tempfile.NamedTemporaryFile(dir=path.parent) as fresh, suppress(FileExistsError):
                fresh.write(secrets.token_bytes(_KEY))
                fresh.flush()
                os.link(fresh.name, path)
        key = path.read_bytes()
    except OSError:
        key = b""
    # One that was cut off protects nothing.
    return key if len(key) == _KEY else secrets.token_bytes(_KEY)
