"""What a checkpoint's files hold, by their headers alone."""

from __future__ import annotations

import json
from pathlib import Path


def stored(folder: Path) -> int:
    """Bytes of all tensors in the folder's safetensors files; 0 when it has none (or is no folder)."""
    return sum(_tensors(path) for path in folder.glob("*.safetensors"))


def _tensors(path: Path) -> int:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    ends = [part["data_offsets"][1] for name, part in header.items() if name != "__metadata__"]
    return max(ends, default=0)
