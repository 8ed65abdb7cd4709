"""What the model folders of a cluster's nodes must have in common, and what is wrong with one. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from recipe.errors import Problem

INDEX = "model.safetensors.index.json"
_SHOWN = 5
_AGAIN = "remove it there; `hallmark model fetch` and `sync` bring again what is not there"


@dataclass(frozen=True)
class Fetched:
    """What a file was when it was fetched: bytes, and the sha256, or git's sha1 where the hub has only that."""

    size: int
    sha256: str | None
    sha1: str | None = None


@dataclass(frozen=True)
class Seen:
    """One node's model folder. `files`: bytes by path; `broken`: links by path with where they lead, which is nowhere
    or outside the folder, so nothing in a container; `owner`: who owns it and who asks, by number; `fetched`: what was
    fetched, by path; `unfinished`: a fetch into it did not end; `blobs`: git's sha1 of small files; `changed`: fetched
    files that were written after their bytes were found right."""

    node: str
    folder: str
    exists: bool
    files: Mapping[str, int]
    broken: Mapping[str, str]
    index: str | None
    revision: str | None
    hashes: Mapping[str, str]
    owner: tuple[int, int] | None
    fetched: Mapping[str, Fetched] = field(default_factory=dict)
    unfinished: bool = False
    blobs: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()


def problems(found: list[Seen]) -> list[Problem]:
    """Everything that would keep vLLM from loading the same model on every node."""
    told = [problem for seen in found for problem in _of(seen, seen is found[0])]
    there = [seen for seen in found if seen.exists]
    for other in there[1:]:
        told += _between(there[0], other)
    return told


def notes(found: list[Seen], wanted: str | None) -> list[str]:
    """What a person should know, and what is not wrong with the folders themselves."""
    told = []
    for seen in found:
        if seen.exists and seen.revision is None:
            told.append(f"{seen.node}: nothing says of which revision {seen.folder} is")
        elif wanted is not None and seen.revision not in (None, wanted):
            told.append(f"{seen.node}: is revision {str(seen.revision)[:12]}, the profile is pinned to {wanted[:12]}")
        if seen.changed and not seen.hashes:
            told.append(
                f"{seen.node}: {_some(sorted(seen.changed))} in {seen.folder}: written after the bytes were found"
                " right; `hallmark model check --hashes` reads them, and `fetch` or `sync` puts right what is wrong"
            )
        if seen.owner is not None and seen.owner[0] != seen.owner[1]:
            told.append(f"{seen.node}: {seen.folder} is user {seen.owner[0]}'s; fetch and sync run as {seen.owner[1]}")
    return told


def _of(seen: Seen, head: bool) -> Iterator[Problem]:
    where = f"node {seen.node}"
    if not seen.exists:
        hint = "`hallmark model fetch` brings it" if head else "`hallmark model sync` brings it from the head"
        yield Problem(f"there is no folder {seen.folder}", where, hint)
        return
    if seen.unfinished:
        hint = f"run `hallmark model {'fetch' if head else 'sync'}` again, it goes on there"
        yield Problem(f"what is fetched into {seen.folder} is not all there", where, hint)
    for path, target in seen.broken.items():
        how = f"leads to {target}, which is not in the folder that the container gets"
        yield Problem(f"{seen.folder}/{path} {how}", where, "put the file itself there, or sync it from the head")
    if "config.json" not in seen.files:
        yield Problem(f"{seen.folder} has no config.json", where, "fetch the whole model")
    lacking = [name for name in shards(seen.index) if name not in seen.files and name not in seen.broken]
    if lacking:
        hint = "`hallmark model fetch` goes on where it stopped"
        yield Problem(f"{seen.folder} lacks {_some(lacking)}, which its index names", where, hint)
    there = {path: size for path, size in seen.files.items() if path in seen.fetched}
    known = {*there, *lacking, *seen.broken}
    sizes = sorted(path for path, size in there.items() if size != seen.fetched[path].size)
    bytes_ = sorted(path for path in there if path not in sizes and _other(seen, path))
    for kind, paths in (
        ("lacks what was fetched", sorted(seen.fetched.keys() - known)),
        ("has other sizes than were fetched", sizes),
        ("has other bytes than were fetched", bytes_),
    ):
        if paths:
            yield Problem(f"{seen.folder} {kind}: {_some(paths)}", where, _AGAIN)
    names = (*seen.files, *seen.broken)
    if seen.index is None and not any(name.endswith((".safetensors", ".bin")) for name in names):
        yield Problem(f"{seen.folder} has no weights", where, "fetch the whole model")


def shards(index: str | None) -> list[str]:
    """The files that an index names, each once."""
    if index is None:
        return []
    try:
        return sorted({str(name) for name in json.loads(index)["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [f"(its {INDEX} cannot be read)"]


def _between(head: Seen, other: Seen) -> Iterator[Problem]:
    where = f"node {other.node}"
    hint = f"`hallmark model sync` brings what {head.node} has"
    if head.revision != other.revision and head.revision and other.revision:
        message = f"is revision {other.revision[:12]}, {head.node} has {head.revision[:12]}"
        yield Problem(message, where, hint)
        return
    # Broken links are told of already.
    one, two = ({*seen.files, *seen.broken} for seen in (head, other))
    lacking, more = sorted(one - two), sorted(two - one)
    both = head.files.keys() & other.files.keys()
    sizes = sorted(path for path in both if head.files[path] != other.files[path])
    hashes = sorted(path for path, proof in head.hashes.items() if other.hashes.get(path, proof) != proof)
    for kind, paths, remedy in (
        (f"lacks what {head.node} has", lacking, hint),
        (f"has what {head.node} lacks", more, "`hallmark model sync` removes nothing: remove it there, or bring it"),
        (f"has other sizes than {head.node}", sizes, hint),
        (f"has other bytes than {head.node}", [path for path in hashes if path not in sizes], _AGAIN),
    ):
        if paths:
            yield Problem(f"{kind}: {_some(paths)}", where, remedy)


def _other(seen: Seen, path: str) -> bool:
    fetched = seen.fetched[path]
    pairs = ((fetched.sha256, seen.hashes.get(path)), (fetched.sha1, seen.blobs.get(path)))
    return any(None not in (wanted, found) and wanted != found for wanted, found in pairs)


def _some(paths: list[str]) -> str:
    rest = len(paths) - _SHOWN
    return ", ".join(name if name.isprintable() else repr(name) for name in paths[:_SHOWN]) + (
        f" and {rest} more" if rest > 0 else ""
    )


def to_json(seen: Seen) -> dict[str, Any]:
    """A node's folder as a JSON value."""
    return {
        "node": seen.node,
        "folder": seen.folder,
        "exists": seen.exists,
        "revision": seen.revision,
        "files": len(seen.files),
        "bytes": sum(seen.files.values()),
        "broken": dict(seen.broken),
    }


def duration(count: int, rate: float) -> str:
    """How long so many bytes take at so many bytes a second."""
    seconds = count / rate if rate > 0 else 0
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
