"""Facts about nodes that a certificate names: the machine, and the files of the model."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from launch.nodes import reach
from launch.plan.group import GroupPlan, RankPlan, at_home
from launch.plan.place import Place
from launch.plan.ranks import model
from recipe.errors import Refused

_HASHES = 'cd "$1" && find -L . -type f -exec sha256sum {} +'


# A node without the program, or whose driver does not answer, has no GPUs that it could name.
_MACHINE = "uname -s; uname -r; uname -m; nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || true"


def machine(place: Place) -> dict[str, object]:
    """Machine, kernel and system of a node, as `uname` names them, and the names of its GPUs, as `nvidia-smi` does."""
    lines = reach.run(place, ("sh", "-c", _MACHINE)).stdout.splitlines()
    system, kernel, processor, *gpus = [line.strip() for line in lines if line.strip()]
    return {"machine": processor, "kernel": kernel, "system": system, "gpus": sorted(gpus)}


def unlike(tested: Mapping[str, object], places: Iterable[Place]) -> list[str]:
    """In what nodes are another kind of machine than the one that was `tested`, by what `machine` said of it then."""
    wrong = []
    each = list(dict.fromkeys(places))
    for place, now in zip(each, reach.each(machine, each), strict=True):
        for part, said in (("machine", str), ("gpus", _kinds)):
            then = tested.get(part)
            if then is not None and said(then) != said(now[part]):
                wrong.append(f"it was tested on {said(then)}, node {place.name} has {said(now[part])}")
    return wrong


def _kinds(gpus: object) -> str:
    names = sorted(set(gpus)) if isinstance(gpus, list) else []
    return ", ".join(map(str, names)) or "no GPU"


def model_folder(rank: RankPlan) -> PurePosixPath | None:
    """The model's folder on the rank's own node, `~` written out; None when it is not a folder of the node, such as a
    repository's name."""
    return folder_of(at_home(rank, reach.home(rank.place)))


def folder_of(rank: RankPlan) -> PurePosixPath | None:
    """As `model_folder`, with `~` left for the node to write out. Pure."""
    named = model(rank.argv)
    if named is None or not named.startswith(("/", "~/")):
        return None
    folder = PurePosixPath(named)
    if rank.container is None:
        return folder
    above = [mount for mount in rank.container.mounts if folder.is_relative_to(mount.target)]
    if not above:
        return None
    nearest = max(above, key=lambda mount: len(mount.target))
    return PurePosixPath(nearest.source) / folder.relative_to(nearest.target)


def model_digest(plan: GroupPlan) -> str:
    """sha256 (hex) over the sorted (path, sha256) of every file of the model.

    Errors: Refused when a node has another model than the head, or its folder cannot be read or is none of the node.
    """
    folders = {}
    for rank in plan.ranks:
        folder = model_folder(rank)
        if folder is None:
            message = (
                f"node {rank.name}: the model {model(rank.argv)} is not a folder of that node, so nothing says which"
            )
            raise Refused(message, hint="serve a folder that is mounted into the container")
        folders[rank.place] = str(folder)
    digests = dict(zip(folders, reach.each(lambda it: _digest(*it), folders.items()), strict=True))
    head = plan.ranks[0].place
    for place, digest in digests.items():
        if digest != digests[head]:
            raise Refused(f"the model on {place.name} is not the one on {head.name}", where=folders[place])
    return digests[head]


def _digest(place: Place, folder: str) -> str:
    done = reach.run(place, ("sh", "-c", _HASHES, "sh", folder), seconds=None)
    if done.returncode:
        raise Refused(f"node {place.name}: the model cannot be read: {done.stderr.strip()}", where=folder)
    lines = (line.split("  ./", 1) for line in done.stdout.splitlines())
    files = {path: digest.removeprefix("\\") for digest, path in lines}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
