"""Searches every layer of an image, as its engine hands them out: what a later layer hides is there all the same.

Nothing is kept: the image runs through this program once, and a second time only to name the files of what was found.
"""

import io
import json
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Protocol

from recipe.errors import Refused
from recipe.image import engine
from recipe.image.client import Client
from recipe.image.inspect import Image

_CHUNK = 1 << 20
_PIECE = 1 << 14
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_LIST = "manifest.json"
_SMALL = 1 << 22
_EVERY = 10.0
_WHOLE = "`docker image rm` that image and pull it again: its layers are not all on the engine"

Needles = Mapping[str, frozenset[bytes]]
"""What to look for, by the name that is told."""


class Readable(Protocol):
    """What chunks are read from."""

    def read(self, size: int, /) -> bytes: ...


def search(client: Client, made: Image, needles: Needles, say: Callable[[str], None]) -> list[tuple[str, str]]:
    """(place, name) of all that is found in the layers, with the file where the layer can be read that far.

    Errors: Refused with docker's own words, where a layer is packed in a way that cannot be searched, or where
    nothing is found and not every layer was handed out.
    """
    hits: dict[str, set[str]] = {}
    order: list[str] = []

    def look(name: str, content: Readable) -> None:
        if name == _LIST:
            text = _short(content)
            order.extend(_layers(text))
            content = io.BytesIO(text)
        if found := set(_found(content, needles)):
            hits[name] = found

    there = _each(client, made, look, say)
    if not hits:
        if len(order) != len(made.layers) or not there.issuperset(order):
            what = f"{sum(name in there for name in order)} of {len(made.layers)} layers"
            raise Refused(f"cannot be searched: the engine handed out {what}", where=made.config_digest, hint=_WHOLE)
        return []
    places: dict[str, list[tuple[str, str]]] = {}

    def name_files(name: str, content: Readable) -> None:
        if name in hits:
            places[name] = [*_named(content, needles)]

    _each(client, made, name_files, lambda line: None)
    told = []
    for name, found in hits.items():
        files = places.get(name, [])
        missed = found - {secret for _, secret in files}
        where = _which(name, order, made)
        told += [(f"{file}, in {where}", secret) for file, secret in files]
        told += [(where, secret) for secret in sorted(missed)]
    return told


def _each(client: Client, made: Image, use: Callable[[str, Readable], None], say: Callable[[str], None]) -> set[str]:
    """Give `use` the name and the content, unpacked, of every file of `docker save`: layers, configuration, lists.

    Returns the names of all that is there, links too."""
    names = set()
    with (
        _saved(client, made) as stream,
        tarfile.open(fileobj=stream, mode="r|", bufsize=_CHUNK) as archive,
    ):
        progress = _Progress(say)
        for entry in _entries(archive):
            names.add(entry.name)
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is not None:
                use(entry.name, _Told(_unpacked(entry.name, content), progress))
    return names


@contextmanager
def _saved(client: Client, made: Image) -> Iterator[IO[bytes]]:
    argv = [client.program, "save", made.config_digest]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        assert process.stdout is not None
        broken: Exception | None = None
        try:
            try:
                yield process.stdout
            except (tarfile.TarError, zlib.error, EOFError) as error:
                broken = error
            # Behind the archive's end is padding; docker must be able to write it.
            while process.stdout.read(_CHUNK):
                pass
        except BaseException:
            process.kill()
            raise
        if process.wait():
            errors.seek(0)
            lines = errors.read().decode(errors="replace").splitlines()
            raise engine.explain(lines, "the layers cannot be searched: docker save failed")
        if broken is not None:
            raise Refused(f"what the engine hands out cannot be searched: {broken}", where=made.config_digest)


def _unpacked(name: str, content: IO[bytes]) -> Readable:
    """The content of a layer. Errors: Refused for one that is packed otherwise than with gzip."""
    first = content.read(4)
    whole = _After(first, content)
    if first[:2] == _GZIP:
        return _Gunzipped(whole)
    if first == _ZSTD:
        hint = "build without secrets in the environment, or on an engine that does not use containerd's image store"
        raise Refused("this engine hands out layers in zstd, which is not searched", where=name, hint=hint)
    return whole


class _Progress:
    """Says how far it is, every few seconds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._size = 0
        self._begun = self._told = time.monotonic()

    def read(self, size: int) -> None:
        self._size += size
        if (now := time.monotonic()) - self._told > _EVERY:
            self._told = now
            self._say(f"  {self._size / 1e9:.1f} GB searched in {now - self._begun:.0f} s")


class _Told:
    """Counts what is read."""

    def __init__(self, content: Readable, progress: _Progress) -> None:
        self._content, self._progress = content, progress

    def read(self, size: int, /) -> bytes:
        found = self._content.read(size)
        self._progress.read(len(found))
        return found


class _After:
    """What was read already, and then the rest."""

    def __init__(self, first: bytes, rest: Readable) -> None:
        self._first, self._rest = first, rest

    def read(self, size: int, /) -> bytes:
        if self._first:
            first, self._first = self._first[:size], self._first[size:]
            return first
        return self._rest.read(size)


class _Gunzipped:
    """Unpacks gzip, also of many members: some tools make one of every file of a layer."""

    def __init__(self, packed: Readable) -> None:
        self._packed = packed
        self._chunk, self._at = b"", 0
        self._unpacker = zlib.decompressobj(wbits=31)
        self._begun = False

    def read(self, size: int, /) -> bytes:
        while True:
            if self._unpacker.eof:
                # What stands behind a member was taken, and not used.
                self._at -= len(self._unpacker.unused_data)
                self._unpacker, self._begun = zlib.decompressobj(wbits=31), False
            packed = self._unpacker.unconsumed_tail or self._next()
            if not packed:
                return b""
            # Between members may be padding.
            packed = packed if self._begun else packed.lstrip(b"\0")
            if packed:
                self._begun = True
                if found := self._unpacker.decompress(packed, size):
                    return found

    def _next(self) -> bytes:
        if self._at == len(self._chunk):
            self._chunk, self._at = self._packed.read(_CHUNK), 0
        # In small pieces, as what a member leaves of one is copied.
        piece = self._chunk[self._at : self._at + _PIECE]
        self._at += len(piece)
        return piece


def _found(content: Readable, needles: Needles) -> Iterator[str]:
    """The names of what is in a stream, also where it lies across two chunks; each may come more than once."""
    longest = max(len(form) for written in needles.values() for form in written)
    tail = b""
    while chunk := content.read(_CHUNK):
        text = tail + chunk
        for name, written in needles.items():
            if any(form in text for form in written):
                yield name
        tail = text[-(longest - 1) :]


def _named(content: Readable, needles: Needles) -> Iterator[tuple[str, str]]:
    """(file, name) in a layer, as far as it is an archive."""
    stream: Any = content
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_CHUNK) as layer:
            for entry in _entries(layer):
                path = f"/{entry.name.removeprefix('./')}"
                texts = "\n".join((entry.name, entry.linkname, *entry.pax_headers.values())).encode(
                    errors="surrogateescape"
                )
                found = {name for name, written in needles.items() if any(form in texts for form in written)}
                file = layer.extractfile(entry) if entry.isreg() else None
                if file is not None:
                    found |= set(_found(file, needles))
                # A name that holds a secret is not told.
                yield from ((path if not _in_name(path, needles) else "the name of a file", name) for name in found)
    except (tarfile.TarError, EOFError):
        return


def _entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    seen: list[tarfile.TarInfo] = archive.members  # type: ignore[attr-defined]
    while (entry := archive.next()) is not None:
        # Else all that were seen are kept, a hundred thousand in a layer.
        seen.clear()
        yield entry


def _in_name(path: str, needles: Needles) -> bool:
    text = path.encode(errors="surrogateescape")
    return any(form in text for written in needles.values() for form in written)


def _short(content: Readable) -> bytes:
    text = b""
    while (chunk := content.read(_CHUNK)) and len(text) < _SMALL:
        text += chunk
    return text


def _layers(text: bytes) -> list[str]:
    try:
        return [str(name) for name in json.loads(text)[0]["Layers"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        return []


def _which(name: str, order: list[str], made: Image) -> str:
    if name in order and len(order) == len(made.layers):
        at = order.index(name)
        return f"layer {at + 1} of {len(order)} ({made.layers[at]})"
    return f"{name} of the image"
