"""What an image says of itself in its labels. Anybody can write labels, so that they are read with suspicion."""

import json
from collections.abc import Mapping
from typing import Any

from recipe.errors import Mismatch
from recipe.image import bom, checks
from recipe.image.plan import BOM, MANIFEST


def verdicts(labels: Mapping[str, str]) -> dict[str, str]:
    """What each check said; none where the image says nothing. Errors: Mismatch when that cannot be read."""
    try:
        found = json.loads(labels.get(checks.LABEL, "{}"))
    except (ValueError, RecursionError):
        raise _wrong(checks.LABEL) from None
    if not isinstance(found, dict):
        raise _wrong(checks.LABEL)
    return {check: str(verdict) for check, verdict in found.items()}


def unverified(labels: Mapping[str, str]) -> list[str]:
    """Checks of an image that did not pass; such an image is not to be certified. Errors: as `verdicts`."""
    return [f"{check}: {verdict}" for check, verdict in verdicts(labels).items() if verdict != checks.PASS]


def manifest(labels: Mapping[str, str]) -> dict[str, Any] | None:
    """PATCHES.json; None where the image has none. Errors: Mismatch when it cannot be read."""
    found = _document(labels, MANIFEST)
    patches = found.get("patches") if found is not None else {}
    if not isinstance(patches, dict) or not all(isinstance(it, dict) and "state" in it for it in patches.values()):
        raise _wrong(MANIFEST)
    return found


def materials(labels: Mapping[str, str]) -> dict[str, Any] | None:
    """The bill of materials; None where the image has none. Errors: Mismatch when it cannot be read."""
    found = _document(labels, BOM)
    if found is not None and not isinstance(found.get("components"), list):
        raise _wrong(BOM)
    return found


def _document(labels: Mapping[str, str], label: str) -> dict[str, Any] | None:
    if not labels.get(label):
        return None
    try:
        found = bom.unpacked(labels[label])
    except ValueError:
        raise _wrong(label) from None
    if not isinstance(found, dict):
        raise _wrong(label)
    return found


def _wrong(label: str) -> Mismatch:
    return Mismatch(f"its label {label} is not what a build writes", hint="look at who made this image")
