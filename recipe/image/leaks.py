"""Looks for secrets in all that a build leaves behind.

No step of a build is given one: what takes a secret (a private index, a gated base or model) is fetched before, by pip
and docker on this machine. This proves that none came along.
"""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from recipe.config.rules import is_reference, is_secret
from recipe.errors import Problem, Refused
from recipe.image import bom, engine
from recipe.image.client import Client
from recipe.image.inspect import Image
from recipe.image.plan import BOM, MANIFEST

# Anything shorter would be found by chance.
_SHORTEST = 12
# https://user:PASSWORD@host, as pip takes it for a private index.
_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
# The other alphabet of base64.
_FOR_ADDRESSES = bytes.maketrans(b"+/", b"-_")


def known(environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets that this shell and the profile's references hold, by the name to call them in a message."""
    found = {name: value for name, value in os.environ.items() if is_secret(name)}
    for name, value in os.environ.items():
        # Indexes are often listed in one variable.
        passwords = _PASSWORD.findall(value)
        found |= {f"{name} ({at})" if at > 1 else name: it for at, it in enumerate(passwords, 1)}
    for name, reference in environment.items():
        if is_reference(reference):
            kind, _, where = reference.partition(":")
            found[name] = os.environ.get(where, "") if kind == "env" else _text(Path(where).expanduser())
    return {name: value.strip() for name, value in found.items() if len(value.strip()) >= _SHORTEST}


def refuse(client: Client, made: Image, files: Mapping[str, bytes], secrets: Mapping[str, str]) -> None:
    """Look through an image's configuration, history and labels, and through `files`, all that its base does not have.

    Errors: Refused with every place of a secret, by its name; the image is removed then.
    """
    if not secrets:
        return
    digest, labels = made.config_digest, made.labels
    places = {
        "its configuration": _texts(json.loads(engine.ask(client, "image", "inspect", digest))),
        "its history": engine.ask(client, "history", "--no-trunc", "--format", "{{.CreatedBy}}", digest).encode(),
        **{f"its label {name}": _texts(bom.unpacked(labels[name])) for name in (MANIFEST, BOM) if name in labels},
        **files,
    }
    hits = [Problem(f"the secret {name} is in {place}") for place, name in search(places, secrets)]
    if hits:
        engine.ask(client, "image", "rm", "--force", digest)
        error = Refused("")
        gone = Problem(
            "the image was removed, and no tag was made or moved", hint="take it out, and change that secret"
        )
        error.problems = (*hits, gone)
        raise error


def search(places: Mapping[str, bytes], secrets: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """(place, name) for every secret that is somewhere, as it is or in base64."""
    for name, value in secrets.items():
        forms = set(_forms(value))
        for place, content in places.items():
            if any(form in content for form in forms):
                yield place, name


def _forms(value: str) -> Iterator[bytes]:
    """A secret as it is, without the percent signs of an address, and as a part of a longer text in base64."""
    for plain in map(os.fsencode, (value, unquote(value))):
        yield plain
        for before, skipped in ((0, 0), (1, 2), (2, 3)):
            # Only the characters that depend on nothing that stands before or behind the secret.
            packed = base64.b64encode(bytes(before) + plain)[skipped : (before + len(plain)) * 8 // 6]
            yield from (packed, packed.translate(_FOR_ADDRESSES))


def _texts(document: Any) -> bytes:
    """All names and texts of a document as they are: in JSON a quote or an ampersand is written otherwise."""
    if isinstance(document, dict):
        return b"\n".join(_texts(part) for pair in document.items() for part in pair)
    if isinstance(document, list):
        return b"\n".join(map(_texts, document))
    return str(document).encode(errors="surrogateescape")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
