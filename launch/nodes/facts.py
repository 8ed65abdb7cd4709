"""Facts about nodes that a certificate names: the machine, and the files of the model."""

import hashlib
import json
from pathlib import PurePosixPath

from launch.nodes import reach
from launch.plan.group import GroupPlan, RankPlan, at_home
from launch.plan.place import Place
from launch.plan.ranks import model
from recipe.errors import Refused

_HASHES = 'cd "$1" && find -L . -type f -exec sha256sum {} +'


def machine(place: Place) -> dict[str, object]:
    """Machine, kernel and system of a node, as `uname` names them."""
    done = reach.run(place, ("uname", "-m", "-r", "-s"))
    system, kernel, processor = done.stdout.split()
    return {"machine": processor, "kernel": kernel, "system": system}


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
