"""Looks for secrets in all that a build leaves behind.

No step of a build is given one: what takes a secret (a private index, a gated base or model) is fetched before, by pip
and docker on this machine. This proves that none came along.
"""

import base64
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

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


def known(environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets that this shell and the profile's references hold, by the name to call them in a message."""
    found = {name: value for name, value in os.environ.items() if is_secret(name)}
    found |= {name: match[1] for name, value in os.environ.items() if (match := _PASSWORD.search(value))}
    for name, reference in environment.items():
        if is_reference(reference):
            kind, _, where = reference.partition(":")
            value = os.environ.get(where, "") if kind == "env" else _text(Path(where).expanduser())
            found[name] = value.strip()
    return {name: value for name, value in found.items() if len(value) >= _SHORTEST}


def refuse(client: Client, made: Image, files: Mapping[str, bytes], secrets: Mapping[str, str]) -> None:
    """Look through an image's configuration, history and labels, and through `files`, all that its base does not have.

    Errors: Refused with every place of a secret, by its name; the image is removed then.
    """
    if not secrets:
        return
    digest, labels = made.config_digest, made.labels
    places = {
        "its configuration": engine.ask(client, "image", "inspect", digest).encode(),
        "its history": engine.ask(client, "history", "--no-trunc", "--format", "{{.CreatedBy}}", digest).encode(),
        **{f"its label {name}": str(bom.unpacked(labels[name])).encode() for name in (MANIFEST, BOM) if name in labels},
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
        forms = (value.encode(), base64.b64encode(value.encode()).rstrip(b"="))
        for place, content in places.items():
            if any(form in content for form in forms):
                yield place, name


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
