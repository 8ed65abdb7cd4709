"""Which layers of an image a node lacks, and the archive that brings only those. Pure."""

import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class Held:
    """An image that a node has: its size in bytes and the sha256 of each layer, base first."""

    size: int
    layers: tuple[str, ...]


def there(wanted: Sequence[str], held: Iterable[Held]) -> int:
    """How many of the wanted layers a node has, from the base on: layers are only shared with all those below them."""
    return max((_alike(wanted, one.layers) for one in held), default=0)


def coming(size: int, wanted: Sequence[str], held: Iterable[Held]) -> int:
    """Bytes of an image of this size that a node lacks, at most: what it has counts as far as its sizes say."""
    # An image that has more than the common layers says nothing about how large those are alone.
    whole = [one.size for one in held if one.layers and _alike(wanted, one.layers) == len(one.layers)]
    # Older images of the same base have that base and a little more, which is as much as is theirs alone.
    above = [one.size for one in held if len(one.layers) - _alike(wanted, one.layers) == 1]
    return max(0, size - max([*whole, *above], default=0))


def write(
    file: IO[bytes], name: str, config: tuple[str, bytes], wanted: Sequence[str], layers: Mapping[str, Path]
) -> None:
    """The image for `docker load`: its configuration (digest, bytes) and only the `layers` that are given, by their
    sha256; the engine has the others. It gets the tag `name`."""
    digest, content = config
    file_of = {layer: f"{layer.removeprefix('sha256:')}/layer.tar" for layer in wanted}
    document = f"{digest.removeprefix('sha256:')}.json"
    manifest = [{"Config": document, "RepoTags": [name], "Layers": [file_of[layer] for layer in wanted]}]
    with tarfile.open(fileobj=file, mode="w") as archive:
        _add(archive, "manifest.json", json.dumps(manifest).encode())
        _add(archive, document, content)
        for layer, path in layers.items():
            archive.add(path, file_of[layer])


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _alike(wanted: Sequence[str], layers: Sequence[str]) -> int:
    count = 0
    for mine, theirs in zip(wanted, layers, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
