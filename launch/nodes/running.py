"""Facts about the containers that run on a node, whoever started them."""

import json
from typing import Any

from launch.nodes import reach
from launch.plan.adopted import Found
from launch.plan.container import LABEL
from launch.plan.place import Place


def foreign(place: Place) -> list[Found]:
    """The running containers of a node that Hallmark did not start. Errors: Unreachable."""
    ids = reach.docker(place, "ps", "--quiet", "--no-trunc").split()
    if not ids:
        return []
    every: list[dict[str, Any]] = json.loads(reach.docker(place, "inspect", "--type", "container", *ids))
    others = [it for it in every if f"{LABEL}.group" not in (it["Config"].get("Labels") or {})]
    wanted = sorted({it["Image"] for it in others})
    if not wanted:
        return []
    listed: list[dict[str, Any]] = json.loads(reach.docker(place, "image", "inspect", *wanted))
    images = dict(zip(wanted, listed, strict=True))
    return [Found(place, it, images[it["Image"]]) for it in others]
