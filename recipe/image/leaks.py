"""Looks for secrets in all that a build leaves behind, and in the layers of its base.

No step of a build is given one: what takes a secret (a private index, a gated base or model) is fetched before, by pip
and docker on this machine. This proves that none came along.
"""

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

from recipe.errors import Problem, Refused
from recipe.image import bom, engine, saved, searched
from recipe.image.client import Client
from recipe.image.inspect import Image
from recipe.image.plan import BOM, MANIFEST

# The other alphabet of base64.
_FOR_ADDRESSES = bytes.maketrans(b"+/", b"-_")
# What programs leave as it is where they write a secret into an address: nothing; a path's, a login's and a query's.
_UNCHANGED = ("", "/", "$&+,;=", "!'()*")
_NAMES = ("RepoTags", "RepoDigests")
_PERCENT = re.compile(rb"%[0-9A-F]{2}")


def refuse_base(client: Client, base: Image, secrets: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Look through every layer of a base, also for files that a later layer hides; each once for the same secret.

    Errors: Refused with every place of a secret, by its name; what `saved.search` raises.
    """
    looked_for = {name: forms(it) for name, it in secrets.items()}
    new = searched.missing(base.layers, looked_for)
    if not new:
        return
    names = ", ".join(new)
    say(f"the {len(base.layers)} layers of the base are searched for {names}, which is done once")
    hits = saved.search(client, base, new, say)
    if hits:
        error = Refused("")
        hint = "choose another base image, and change that secret: others can read it there"
        last = Problem("nothing was built", hint=hint)
        error.problems = (*(Problem(f"the secret {name} is in {place}") for place, name in hits), last)
        raise error
    searched.note(base.layers, new)


def refuse(client: Client, made: Image, files: Mapping[str, bytes], secrets: Mapping[str, str]) -> None:
    """Look through an image's configuration, history and labels, and through `files`, all that its base does not have.

    Errors: Refused with every place of a secret, by its name; the image is removed then, unless it has a name already.
    """
    if not secrets:
        return
    digest, labels = made.config_digest, made.labels
    document = json.loads(engine.ask(client, "image", "inspect", digest))
    places = {
        "its configuration": _texts(document),
        "its history": engine.ask(client, "history", "--no-trunc", "--format", "{{.CreatedBy}}", digest).encode(),
        **{f"its label {name}": _texts(bom.unpacked(labels[name])) for name in (MANIFEST, BOM) if name in labels},
        **files,
    }
    hits = [Problem(f"the secret {name} is in {place}") for place, name in search(places, secrets)]
    if hits:
        # A build that finds everything in its cache makes the image of before, and somebody may return to that.
        names = ", ".join(name for it in document for key in _NAMES for name in it.get(key) or ())
        if not names:
            engine.ask(client, "image", "rm", "--force", digest)
        what = f"stays, it was here before as {names}" if names else "was removed"
        last = Problem(f"the image {what}, and no tag was made or moved", hint="take it out, and change that secret")
        error = Refused("")
        error.problems = (*hits, last)
        raise error


def search(places: Mapping[str, bytes], secrets: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """(place, name) for every secret that is somewhere, in any of its forms."""
    for name, value in secrets.items():
        written = forms(value)
        for place, content in places.items():
            if any(form in content for form in written):
                yield place, name


def forms(value: str) -> frozenset[bytes]:
    """All that a secret may look like where it is written."""
    return frozenset(_forms(value))


def _forms(value: str) -> Iterator[bytes]:
    """A secret as it is, with or without the percent signs of an address, as JSON has it, and as a part of a longer
    text in base64."""
    for written in (value, unquote(value)):
        plain = os.fsencode(written)
        yield from _in_addresses(written)
        yield from map(os.fsencode, _in_json(written))
        yield plain
        for before, skipped in ((0, 0), (1, 2), (2, 3)):
            # Only the characters that depend on nothing that stands before or behind the secret.
            packed = base64.b64encode(bytes(before) + plain)[skipped : (before + len(plain)) * 8 // 6]
            yield from (packed, packed.translate(_FOR_ADDRESSES))


def _in_addresses(value: str) -> Iterator[bytes]:
    for safe in _UNCHANGED:
        packed = quote(value, safe=safe, errors="surrogateescape").encode()
        yield from (packed, packed.replace(b"%20", b"+"), _PERCENT.sub(lambda it: it[0].lower(), packed))


def _in_json(value: str) -> Iterator[str]:
    text = json.dumps(value, ensure_ascii=False)[1:-1]
    # Docker's language writes these three otherwise than others.
    yield from (text, text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _texts(document: Any) -> bytes:
    """All names and texts of a document as they are: in JSON a quote or an ampersand is written otherwise."""
    if isinstance(document, dict):
        return b"\n".join(_texts(part) for pair in document.items() for part in pair)
    if isinstance(document, list):
        return b"\n".join(map(_texts, document))
    return str(document).encode(errors="surrogateescape")
