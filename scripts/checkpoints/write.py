"""Writes checkpoints to a folder: shards that kinds share, an index and config.json for each kind.

Owns the folders that it is given: a kind's folder that exists is replaced.
"""

import json
import os
import shutil
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

from scripts.checkpoints import deepseek, encode
from scripts.checkpoints.deepseek import Tensor
from scripts.checkpoints.fill import Filler
from scripts.checkpoints.kinds import KINDS
from scripts.checkpoints.sizes import Sizes

INDEX = "model.safetensors.index.json"


def deepseek_kinds(folder: Path, names: list[str], sizes: Sizes, seed: int, device: str) -> None:
    """Write the kinds `names` below `folder`; shards are made once, below `folder/shards`, and hard-linked."""
    made = shards_folder(folder, sizes, seed, device)
    filler = Filler(sizes, seed, device)
    for name in names:
        kind = KINDS[name]
        shards: dict[str, list[Tensor]] = defaultdict(list)
        for tensor in deepseek.tensors(kind, sizes):
            shards[tensor.shard].append(tensor)
        files = {}
        for shard, tensors in shards.items():
            path = made / f"{shard}.safetensors"
            if not path.exists():
                stored: dict[str, Any] = {}
                for tensor in tensors:
                    stored |= encode.encode(tensor.name, filler.value(tensor), tensor.encoding)
                save(path, stored)
            files[path] = [name for tensor in tensors for name in tensor.stored()]
        checkpoint(folder / name, deepseek.config(kind, sizes), files)


def shards_folder(folder: Path, *origin: object) -> Path:
    """Where shards of this origin (sizes, seed, device) lie; others never stand in for them."""
    return folder / "shards" / f"{zlib.crc32(repr(origin).encode()):08x}"


def checkpoint(folder: Path, config: dict[str, Any], files: dict[Path, list[str]]) -> None:
    """Write one folder that links the shards `files` (file -> names of its tensors)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    weight_map = {}
    for number, (path, names) in enumerate(files.items(), start=1):
        shard = f"model-{number:05}-of-{len(files):05}.safetensors"
        os.link(path, folder / shard)
        weight_map.update(dict.fromkeys(names, shard))
    total = sum(path.stat().st_size for path in files)
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def save(path: Path, stored: dict[str, Any]) -> None:
    """Write one file of tensors; it appears whole or not at all."""
    from safetensors.torch import save_file  # type: ignore[import-not-found,unused-ignore]

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    save_file({name: tensor.contiguous().cpu() for name, tensor in stored.items()}, str(part), {"format": "pt"})
    part.rename(path)
