"""Looks at a node: one script, one round trip, no change there."""

import secrets
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from launch.nodes import reach
from launch.nodes.node import NodeFacts
from launch.nodes.parse import clock, parse
from launch.plan.place import Place
from recipe.errors import Unreachable

_SCRIPT = Path(__file__).with_name("look.sh")
_SECONDS = 60.0


def look(
    place: Place,
    *,
    engine: str = "",
    image: str = "",
    model: str = "",
    peers: Sequence[str] = (),
    folders: Sequence[str] = (),
    ports: Sequence[int] = (),
    memory: tuple[float, float] = (1.0, 0.0),
) -> NodeFacts:
    """The facts of a node. `engine`: also ask docker; `image`: also for this one's variables; `model`: a folder there,
    which may begin with `~`; `peers`: addresses whose route counts; `folders`: where the free space counts; `ports`:
    whose listeners are named; none: of all ports; `memory`: the share of all and the bytes that are wanted: the largest
    processes are told where less is available.

    Errors: Unreachable.
    """
    lists = ("--", *peers, "--", *folders, "--", *map(str, ports))
    words = ("sh", "-s", "--", engine, place.docker_host or "", image, model, *lists)
    before = time.time()
    # Nobody else on the node knows what begins a section, and so none can be put into a process's name.
    front = f"mark={secrets.token_hex(8)} share={memory[0]:g} least={memory[1] / 1024:.0f}\n"
    done = reach.run(place, words, given=front + _script(), seconds=_SECONDS)
    after = time.time()
    there = clock(done.stdout)
    skew = None if there is None else there - (before + after) / 2
    try:
        return parse(done.stdout, skew, (after - before) / 2)
    except (ValueError, TypeError) as error:
        said = done.stderr.strip().splitlines()
        reason = said[-1] if said else f"what it said cannot be read ({error})"
        hint = "the node needs sh, coreutils, grep, sed and awk"
        raise Unreachable(f"node {place.name} could not be looked at: {reason}", hint=hint) from None


@cache
def _script() -> str:
    return _SCRIPT.read_text(encoding="utf-8")
