"""Model files of a cluster: fetched onto the head, brought from there to the other nodes, compared."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.engines.secrets import resolve
from launch.nodes import model as files
from launch.nodes import reach
from launch.nodes.staging import Bars
from launch.plan.group import model_source
from launch.plan.model import Seen, duration, notes, problems
from launch.plan.place import Place
from recipe.config.check import Checked, check_cluster
from recipe.config.models import Node
from recipe.errors import ConfigError, Problem, Refused
from recipe.image import pins

_GB = 10**9
# Bytes a second of lines that people have.
_LINES = {"100 Mbit/s": 12.5e6, "1 Gbit/s": 125e6}
# File systems keep some of their blocks to themselves.
_SPARE = 1.02
Say = Callable[[str], None]


@dataclass(frozen=True)
class Models:
    """A cluster's model: its `folder` on every node, the `places` (head first, each machine once), the commit that the
    profile is pinned to."""

    checked: Checked
    folder: str
    places: tuple[Place, ...]
    revision: str | None

    @property
    def head(self) -> Node:
        return self.checked.cluster.value.nodes[0]


@dataclass(frozen=True)
class Done:
    """What a command brought: `bytes` of all files, `changed`: whether anything was not there before."""

    nodes: list[str]
    folder: str
    revision: str | None
    bytes: int
    changed: bool

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def models(home: Path, name: str, profile: str | None, say: Say) -> Models:
    """Open a cluster. Errors: ConfigError."""
    checked = check_cluster(home, name, profile)
    for finding in checked.findings:
        if finding.severity == "warning":
            say(f"{finding.severity}: {finding}")
    found: dict[str, Place] = {}
    for node in checked.cluster.value.nodes:
        found.setdefault(node.address, Place(node.name, node.address, node.docker_host))
    folder = model_source(checked.profile.value, checked.cluster)
    return Models(checked, folder, tuple(found.values()), _revision(home, checked))


def check(of: Models, *, hashes: bool = False) -> tuple[list[Seen], list[Problem], list[str]]:
    """The folder of every node, what is wrong, and what should be known. Errors: Unreachable."""
    found = reach.each(lambda place: files.look(place, of.folder, hashes=hashes), of.places)
    return found, problems(found), notes(found, of.revision)


def fetch(of: Models, say: Say, bars: Bars, *, dry: bool = False) -> Done:
    """Bring the pinned revision onto the head.

    Errors: Refused when the profile is not pinned, without disk, without access; Mismatch; Unreachable; Busy.
    """
    profile, head = of.checked.profile, of.places[0]
    repository = profile.value.model
    if repository.count("/") != 1 or repository.startswith(("/", ".", "~")):
        where = profile.document.where(("model",))
        raise Refused(f"{repository} is a folder's name, so no hub has it", where=where, hint="put the folder there")
    token, hub = _token(of), os.environ.get("HF_ENDPOINT")
    manifest = files.listing(head, repository, of.revision or "main", token, hub)
    if of.revision is None:
        where = profile.document.where(("revision",))
        hint = f"write `revision: {manifest['revision']}` there, which is what main is now, or `hallmark pin`"
        raise Refused("the model is not pinned to a commit, so nodes could get different ones", where=where, hint=hint)
    total = sum(one["size"] for one in manifest["files"])
    there = files.state(head, of.folder, manifest)
    done = Done([head.name], there["folder"], manifest["revision"], total, not there["done"])
    _tell_size(say, head.name, len(manifest["files"]), total, there)
    if there["done"] or dry:
        return done
    files.get(head, of.folder, manifest, token, bars(head.name))
    return done


def sync(of: Models, say: Say, bars: Bars) -> Done:
    """Bring the head's files to every other node, over the fabric.

    Errors: Refused when the head's folder is not whole, without disk, without a fabric address; Mismatch;
    Unreachable; Busy.
    """
    head, *others = of.places
    seen = files.look(head, of.folder)
    wrong = problems([seen])
    if wrong:
        raise NodeRefused(wrong)
    manifest = files.scan(head, of.folder, bars(f"{head.name} (hashes)"))
    total = sum(one["size"] for one in manifest["files"])
    states = reach.each(lambda place: files.state(place, of.folder, manifest), others)
    lacking = [place for place, there in zip(others, states, strict=True) if not there["done"]]
    done = Done([place.name for place in others], of.folder, manifest["revision"], total, bool(lacking))
    for place, there in zip(others, states, strict=True):
        _tell_size(say, place.name, len(manifest["files"]), total, there)
    if not lacking:
        return done
    fabric = of.head.fabric
    if fabric is None:
        where = of.checked.cluster.document.where(("nodes", 0))
        raise Refused("the head has no fabric address, over which the files would go", where=where, hint="add fabric")
    with files.serving(head, of.folder, fabric) as (base, token):
        reach.each(
            lambda place: files.get(place, of.folder, {**manifest, "base": base}, token, bars(place.name)), lacking
        )
    return done


class NodeRefused(Refused):
    """Problems of one node's folder, all of them."""

    def __init__(self, found: list[Problem]) -> None:
        super().__init__(found[0].message)
        self.problems = tuple(found)


def _tell_size(say: Say, node: str, count: int, total: int, there: dict[str, Any]) -> None:
    if there["done"]:
        say(
            f"{node}: all {count} files are there ({total / _GB:.1f} GB), of the size and time that they had when every"
            " byte was right; `hallmark model check --hashes` reads them again"
        )
        return
    if there["changed"]:
        say(f"{node}: {there['changed']} files were written since their bytes were right, and are read again")
    need = total - there["have"]
    times = ", ".join(f"{duration(need, rate)} at {line}" for line, rate in _LINES.items())
    say(f"{node}: {count} files, {total / _GB:.1f} GB, {need / _GB:.1f} GB of them to come: {times}")
    if need * _SPARE > there["free"]:
        message = f"{need * _SPARE / _GB:.1f} GB are needed, {there['free'] / _GB:.1f} GB are free"
        hint = "make room, or let paths.models name another disk"
        raise Refused(message, where=f"node {node}: {there['folder']}", hint=hint)


def _token(of: Models) -> str | None:
    """By the profile's reference, else from this shell. Errors: HallmarkError when the reference names nothing."""
    reference = of.checked.profile.value.env.get("HF_TOKEN")
    return pins.hub_token(resolve(reference) if reference else os.environ.get("HF_TOKEN", ""), reference or "HF_TOKEN")


def _revision(home: Path, checked: Checked) -> str | None:
    """The commit by the profile, else by `hallmark pin`."""
    profile = checked.profile
    written = profile.value.revision
    if written is not None and not pins.COMMIT.fullmatch(written):
        where = profile.document.where(("revision",))
        hint = "write the 40 digits of a commit, or leave it out and run `hallmark pin`"
        raise ConfigError([Problem(f"revision: {written!r} may move", where, hint)])
    pin = pins.load(home).value.profiles.get(profile.name)
    pinned = pin.model.revision if pin and pin.model and pin.model.repository == profile.value.model else None
    return written or pinned
