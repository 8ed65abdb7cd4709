"""Which images of this project nothing refers to, on this machine's engine and on those of clusters; their removal."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.ledger.work import Work, refusal
from launch.ledger.work import work as open_work
from launch.nodes import reach
from launch.nodes.image import KEPT
from launch.nodes.lock import locked
from launch.nodes.shelf import shelves
from launch.nodes.stock import Referred, Stock, Stocked, referred, remove, stock
from launch.plan.place import Place
from recipe.config import paths
from recipe.config.load import load_cluster, names
from recipe.errors import ConfigError, HallmarkError, Mismatch
from recipe.image import client, engine
from recipe.image.inspect import repository_of
from recipe.image.plan import LABEL, tag
from recipe.image.reference import tag_of

_HERE = Place("this machine", "local")
_SHORT = 12


@dataclass(frozen=True)
class Choice:
    """An image on one engine, and why it stays; for no reason it goes."""

    image: Stocked
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "node": self.image.place.name,
            "config_digest": self.image.digest,
            "names": list(self.image.names),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True)
class Pruned:
    """All images of this project that were found: those that were removed (or would be), and those that stay."""

    removed: list[Choice]
    kept: list[Choice]


def prune(home: Path, clusters: Sequence[str], *, dry_run: bool, say: Callable[[str], None]) -> Pruned:
    """Remove what nothing refers to, from this machine's engine and from those of the nodes of `clusters`.

    Everything is looked at before anything is removed, under the locks of these clusters. Of other clusters of the
    project counts what is known on this machine.
    Errors: HallmarkError for a cluster without containers; Unreachable; Busy; Refused with docker's own words for what
    docker would not remove; Mismatch when a record cannot be read, or when none is there where there must be some: what
    nothing is known of would count as needed by nobody.
    """
    works = [_containers(open_work(home, name, say)) for name in clusters]
    # Before what follows makes the folder that is not there.
    own = _records_here()
    with ExitStack() as held:
        for work in () if dry_run else works:
            held.enter_context(locked(work.store.lock, "images prune"))
        for work in works:
            # Compared with what was seen of it, so that one that lost entries ends this.
            work.store.journal()
        stocks = _stocks(works)
        needed = [it for work in works for it in _folders(work)]
        folders = [*_folders_here(home, say), *needed]
        records: dict[str, set[str]] = {key: set(what) for key, what in own.digests.items()}
        for found in reach.each(lambda folder: referred(*folder), dict.fromkeys(folders)):
            if not found.files and (found.place, found.state) in needed:
                raise Mismatch(
                    "has no record of any cluster, so nothing says what refers to the images there",
                    where=f"{found.place.name}:{found.state}",
                    hint="mount what belongs there; leave out a cluster that was never launched",
                )
            for digest, what in found.digests.items():
                records.setdefault(digest, set()).update(what)
        choices = choose(stocks, records)
        gone, kept = [it for it in choices if not it.reasons], [it for it in choices if it.reasons]
        if not dry_run:
            _remove(gone, say)
    return Pruned(gone, kept)


def choose(stocks: Iterable[Stock], records: Mapping[str, set[str]]) -> list[Choice]:
    """Decide about every image; `records`: by digest (hex) what histories and certificates refer to it. Pure."""
    stocks = list(stocks)
    used: dict[str, list[str]] = {}
    for it in stocks:
        for digest, containers in it.used.items():
            used.setdefault(digest, []).extend(f"container {name} on {it.place.name}" for name in containers)
    return [
        Choice(
            image,
            (
                *used.get(image.digest, ()),
                *sorted(records.get(image.digest.removeprefix("sha256:"), ())),
                *(f"the name {name}" for name in image.names if not _made_by_us(name, image)),
            ),
        )
        for it in stocks
        for image in it.images
    ]


def _made_by_us(name: str, image: Stocked) -> bool:
    """Whether a build or a staging gave the image this name; any other one, also the certified tag, is somebody's."""
    repository, label = repository_of(name), image.labels.get
    if "@" in name or repository == KEPT:
        return True
    profile, vllm, patchset = (label(f"{LABEL}.{key}", "") for key in ("profile", "vllm", "patchset"))
    digest = image.digest.removeprefix("sha256:")
    return name in (tag(repository, profile, vllm, patchset), f"{repository}:{tag_of(digest[:_SHORT])}")


def _containers(work: Work) -> Work:
    if work.cluster.value.engine != "docker":
        raise HallmarkError(
            f"the {work.cluster.value.engine} engine has no images",
            where=work.cluster.document.where(("engine",)),
            hint="name clusters of the docker engine only",
        )
    return work


def _stocks(works: Iterable[Work]) -> list[Stock]:
    """Each engine once, under whatever names it is reached."""
    # Of this machine's engine it is said otherwise than of a node's what to do when it does not answer.
    engine.check(client.plain())
    nodes = [Place(it.name, it.address, it.docker_host) for work in works for it in work.cluster.value.nodes]
    found: dict[str, Stock] = {}
    for it in reach.each(stock, dict.fromkeys([_HERE, *nodes])):
        found.setdefault(it.engine, it)
    return list(found.values())


def _folders(work: Work) -> Iterator[tuple[Place, str]]:
    for shelf in shelves(work.cluster):
        yield shelf.place, shelf.state


def _records_here() -> Referred:
    """What is known in this machine's own state folder. Errors: Mismatch when that is no folder for records."""
    found = referred(_HERE, str(paths.state()))
    if not found.there:
        folder = shlex.quote(f"{found.state}/clusters")
        raise Mismatch(
            "is not there or empty, so nothing says what refers to the images",
            where=found.state,
            hint=f"mount it; if nothing was ever launched from this machine: mkdir -p {folder}",
        )
    return found


def _folders_here(home: Path, say: Callable[[str], None]) -> Iterator[tuple[Place, str]]:
    """Where else this machine has records: a node's usual folder, and what the project's clusters name."""
    yield _HERE, "~/.hallmark"
    for path in names(home, "clusters").values():
        try:
            cluster = load_cluster(home, str(path))
        except ConfigError as error:
            say(f"warning: what {path.stem} has run is not known: {error}")
            continue
        for shelf in shelves(cluster):
            if shelf.place.local:
                yield _HERE, shelf.state


def _remove(choices: Iterable[Choice], say: Callable[[str], None]) -> None:
    left, gone = [], 0
    for choice in choices:
        image = choice.image
        told = remove(image)
        if told is None:
            gone += 1
            say(f"  {image.place.name}: removed {image.digest}")
        else:
            left.append(f"{image.place.name}: {image.digest} stays: {told}")
    if left:
        raise refusal(f"{gone} images were removed, {len(left)} were not", left)
