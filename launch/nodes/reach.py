"""What is asked of nodes: commands, docker's commands, their home folders; several nodes at the same time."""

import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from launch.nodes import ssh
from launch.nodes.ssh import run
from launch.plan.place import Place
from recipe.errors import HallmarkError, Problem, Unreachable
from recipe.image import client
from recipe.image.engine import explain

__all__ = ["answer", "command", "docker", "each", "home", "run"]
T = TypeVar("T")
S = TypeVar("S")


# An engine that answers a question later than this hangs; what it is told to do may take longer.
_QUESTIONS = ("ps", "inspect", "version", "info", "image inspect", "image ls")
QUESTION_SECONDS = 15.0
_SECONDS = 120.0
# Engines that did not answer a question, with when that was and which one: asked one after the other, the questions of
# one command would each wait for one that hangs.
_hung: dict[Place, tuple[float, str]] = {}
_AGAIN_SECONDS = 3.0
# So many nodes are asked at the same time, whatever a cluster has.
_MOST = 16


def command(place: Place, *words: str) -> tuple[str, ...]:
    """The docker command with these words, as it is run on the node; on this machine with the program that commands
    here use.

    Errors: HallmarkError when there is no such program here.
    """
    program, *rest = place.docker(*words)
    return (client.plain().program if place.local else program, *rest)


def docker(
    place: Place,
    *words: str,
    variables: Mapping[str, str] | None = None,
    seconds: float | None = 0,
    once: bool = False,
) -> str:
    """Run the docker program of a node and give its standard output.

    `seconds`: 0 is what is enough for an engine that does not hang, None no limit; `once`: not again when the
    connection breaks.
    Errors: Unreachable when node or engine are not reached; Refused with docker's own words.
    """
    done = answer(place, *words, variables=variables, seconds=seconds, once=once)
    if done.returncode:
        raise refused(place, done, f"docker {words[0]} failed")
    return done.stdout


def answer(
    place: Place,
    *words: str,
    variables: Mapping[str, str] | None = None,
    seconds: float | None = 0,
    once: bool = False,
    through: Sequence[str] = (),
) -> "subprocess.CompletedProcess[str]":
    """As `docker`, but what it ended with and all that it wrote; `through`: a program that is given the command.

    Errors: Unreachable.
    """
    question = words[0] in _QUESTIONS or " ".join(words[:2]) in _QUESTIONS
    limit = seconds if seconds != 0 else (QUESTION_SECONDS if question else _SECONDS)
    at, told = _hung.get(place, (0.0, ""))
    if told and time.monotonic() - at < _AGAIN_SECONDS:
        raise _hangs(place, told)
    try:
        # Run twice, it would make a second container or fail because of the first; everything else may be repeated.
        once = once or words[0] == "run"
        return run(place, (*through, *command(place, *words)), variables=variables, seconds=limit, once=once)
    except ssh.Late:
        told = f"`docker {words[0]}` within {limit:g} s"
        if question:
            _hung[place] = (time.monotonic(), told)
        raise _hangs(place, told) from None


def _hangs(place: Place, told: str) -> Unreachable:
    what = f"the engine of node {place.name} did not answer {told}"
    return Unreachable(what, where=place.address, hint="restart docker there")


def refused(place: Place, done: "subprocess.CompletedProcess[str]", otherwise: str) -> HallmarkError:
    """The error of a docker command that failed on a node."""
    if done.returncode == 127 and "docker" in done.stderr and "not found" in done.stderr:
        hint = "install docker there"
        return Unreachable("there is no program docker", where=f"node {place.name}", hint=hint)
    return explain(done.stderr.splitlines(), otherwise, place.name)


@cache
def home(place: Place) -> str:
    """The home folder of the user on the node."""
    done = run(place, ("sh", "-c", 'printf %s "$HOME"'))
    if not done.stdout.startswith("/"):
        raise Unreachable(f"node {place.name}: HOME is not set", where=place.address)
    return done.stdout


def each(ask: Callable[[T], S], of: Iterable[T]) -> list[S]:
    """Ask of several nodes at the same time; answers in their order.

    Errors: the first one, with the problems of all that failed.
    """
    asked = list(of)
    with ThreadPoolExecutor(max_workers=max(1, min(_MOST, len(asked)))) as pool:
        pending = [pool.submit(ask, it) for it in asked]
    failed = [error for it in pending if (error := it.exception()) is not None]
    for error in failed:
        if not isinstance(error, HallmarkError):
            raise error
    if failed:
        first = next((it for it in failed if isinstance(it, Unreachable)), failed[0])
        assert isinstance(first, HallmarkError)
        problems: list[Problem] = []
        for error in failed:
            assert isinstance(error, HallmarkError)
            problems += error.problems
        first.problems = tuple(dict.fromkeys(problems))
        raise first
    return [it.result() for it in pending]
