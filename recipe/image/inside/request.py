"""What the build asks: the image's site-packages and the base's, the hardware, and the profile's command line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Flag:
    """One serve flag: its name, its words on the command line, and its place in the profile (`file:line: key`)."""

    name: str
    words: list[str]
    where: str


@dataclass(frozen=True)
class Request:
    """`site`, `base`: site-packages of the image and of its base; `capability`: (12, 1), None for a CPU. `gpus`: of one
    node.

    `compiles` says why this profile compiles code while it serves, None when it does not; `pins` are versions that the
    vLLM release names; `extras` are names of packages that the build installed; `patches`: where the profile names each
    patch (`file:line: key`).
    """

    site: Path
    base: Path
    machine: str
    device: str
    capability: tuple[int, int] | None
    gpus: int
    model: str
    flags: list[Flag]
    environment: dict[str, str]
    compiles: str | None
    deepgemm: bool
    pins: dict[str, str]
    patchset: str
    extras: list[str] = field(default_factory=list)
    patches: dict[str, str] = field(default_factory=dict)


def load(path: Path, site: Path, root: Path) -> Request:
    """Read the request; `root` is the folder where the base image's own files are seen."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    flags = [Flag(**flag) for flag in found.pop("flags")]
    capability = found.pop("capability")
    base = root / site.relative_to(site.anchor)
    return Request(site=site, base=base, flags=flags, capability=tuple(capability) if capability else None, **found)
