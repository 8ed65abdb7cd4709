"""Base images as layers in the cache, and the archive of them that `docker load` reads.

Images are put together here instead of by `docker import`, which writes the time into them: the same layers are
the same image, with the same digest, on every engine.
"""

import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from launch.plan import layers
from recipe.config import paths
from recipe.errors import Refused

# Nothing is known about when a layer's content came to be, and the image must not depend on when it was packed.
_CREATED = "2026-01-01T00:00:00Z"
_CHUNK = 2**20


@dataclass(frozen=True)
class Layer:
    """One layer: an uncompressed tar file and its sha256."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class Base:
    """An image made of layers, base first. `architecture`: as docker names it; `labels`: name and value of each."""

    reference: str
    architecture: str
    layers: tuple[Layer, ...]
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def configuration(self) -> bytes:
        document = {
            "architecture": self.architecture,
            "os": "linux",
            "created": _CREATED,
            "config": {
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Cmd": ["/bin/sh"],
                **({"Labels": dict(self.labels)} if self.labels else {}),
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.sha256}" for layer in self.layers]},
            "history": [{"created": _CREATED, "comment": layer.path.stem} for layer in self.layers],
        }
        return json.dumps(document, sort_keys=True).encode()

    @property
    def digest(self) -> str:
        """The image's config digest."""
        return f"sha256:{hashlib.sha256(self.configuration).hexdigest()}"


def layer(name: str, key: str, write: Callable[[tarfile.TarFile], None]) -> Layer:
    """The layer of this name, from the cache or else as `write` fills it. `key` stands for all that went in."""
    folder = paths.cache() / "bases"
    path = folder / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.tar"
    digest = path.with_suffix(".sha256")
    if not digest.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as archive:
                write(archive)
            with part.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            for old in folder.glob(f"{name}-{'?' * 12}.*"):  # of another key, which nothing asks for any more
                old.unlink()
            part.replace(path)
            # Written last: it says that the layer is complete.
            digest.write_text(found)
        finally:
            part.unlink(missing_ok=True)
    return Layer(path, digest.read_text().strip())


def load(base: Base, client: str, host: str | None = None) -> None:
    """Give the image to an engine, unless it has it. Errors: Refused with docker's own words."""
    docker = [client, *(("--host", host) if host else ())]
    if _asked(docker, "inspect", "--format", "{{.Id}}", base.reference) == [base.digest]:
        return
    known = _known(docker, base)
    told = _load(docker, base, known)
    if told and known:
        # An engine may want even those layers that it has.
        told = _load(docker, base, 0)
    if told:
        raise Refused(f"docker load {base.reference}: {told}", where=host)


def _known(docker: list[str], base: Base) -> int:
    """How many of the image's layers the engine has, from the lowest on."""
    images = _asked(docker, "ls", "--quiet", "--no-trunc")
    found = _asked(docker, "inspect", "--format", "{{json .RootFS.Layers}}", *images) if images else []
    held = [layers.Held(0, tuple(json.loads(line) or ())) for line in found]
    return layers.there([f"sha256:{layer.sha256}" for layer in base.layers], held)


def _asked(docker: list[str], *words: str) -> list[str]:
    done = subprocess.run([*docker, "image", *words], check=False, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1]


def _load(docker: list[str], base: Base, known: int) -> str | None:
    """Load the image without its `known` lowest layers; gives what docker says when it fails."""
    with subprocess.Popen(
        [*docker, "load", "--quiet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            write(base, process.stdin, known)
            process.stdin.close()
        except BrokenPipeError:
            pass  # Docker ended before it had read all; it says why.
        told = process.stdout.read().decode(errors="replace").strip()
    return told or f"it ended with {process.returncode}" if process.returncode else None


def write(base: Base, out: IO[bytes], known: int = 0) -> None:
    """Write the archive that `docker load` reads, without the `known` lowest layers, which the engine has."""
    names = [f"{layer.sha256}.tar" for layer in base.layers]
    configuration = f"{base.digest[7:]}.json"
    manifest = json.dumps([{"Config": configuration, "RepoTags": [base.reference], "Layers": names}]).encode()
    with tarfile.open(fileobj=out, mode="w|", bufsize=_CHUNK) as archive:
        for name, layer in list(zip(names, base.layers, strict=True))[known:]:
            entry = tarfile.TarInfo(name)
            entry.size = layer.path.stat().st_size
            with layer.path.open("rb") as file:
                archive.addfile(entry, file)
        for name, data in ((configuration, base.configuration), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def add(archive: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644) -> None:
    """Put one file of root's into a layer."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def add_folders(archive: tarfile.TarFile, names: Iterable[str]) -> None:
    """Put the folders of these files into a layer: an engine that makes them itself gives them the time of now."""
    for name in sorted({str(folder) for file in names for folder in PurePosixPath(file).parents} - {"."}):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(entry)


def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """A filter for files that came from a user's folder."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
