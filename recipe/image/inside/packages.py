"""The Python distributions that this image's interpreter sees, for its bill of materials."""

from __future__ import annotations

import re
from importlib import metadata


def installed() -> list[dict[str, str]]:
    """Name (normalised), version and, where it is a short one, the licence expression of each; sorted by name."""
    found: dict[str, dict[str, str]] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if not name:
            continue
        entry = {"name": normal(name), "version": str(distribution.version)}
        licence = distribution.metadata["License-Expression"]
        if licence:
            entry["licence"] = str(licence)
        # The first one on the path is the one that is imported.
        found.setdefault(entry["name"], entry)
    return [found[name] for name in sorted(found)]


def normal(name: str) -> str:
    """A distribution's name as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()
