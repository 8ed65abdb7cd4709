"""Runs docker programs against an engine and says in one line what went wrong between the two."""

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from recipe.errors import HallmarkError, Refused, Unreachable
from recipe.image.client import Client

_UNREACHABLE = (
    "error during connect",
    "failed to initialize",
    "unable to parse docker host",
    "unable to resolve docker endpoint",
    "context not found",
    "docker daemon",
    "docker api",
)
# An engine that answers later hangs.
_SECONDS = 20.0
DISK_FULL = "no space left on device"
# What the docker program says last of all, whatever is wrong.
_USAGE = re.compile(r"\s*(Run|See) 'docker .*--help'")


@dataclass(frozen=True)
class Done:
    """A command that ended: its status, and the lines that it wrote to either stream."""

    status: int
    lines: tuple[str, ...]


def check(client: Client) -> None:
    """Errors: Unreachable when no engine answers."""
    ask(client, "version", "--format", "{{.Server.Version}}")


def ask(client: Client, *arguments: str) -> str:
    """Run one short command and give its standard output. Errors: as `explain` says."""
    done = run(client, *arguments)
    if done.returncode:
        raise explain(done.stderr.splitlines(), f"docker {arguments[0]} failed")
    return done.stdout


def run(client: Client, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run one short command. Errors: Unreachable when the engine hangs."""
    # What fetches or removes layers takes as long as it takes.
    limit = None if arguments[0] == "pull" or "rm" in arguments[:2] else _SECONDS
    try:
        argv = [client.program, *arguments]
        return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        what = f"the engine did not answer `docker {arguments[0]}` within {limit:g} s"
        raise Unreachable(what, where=_where(), hint="restart docker") from None


def stream(argv: Sequence[str], variables: Mapping[str, str], show: Callable[[str], None]) -> Done:
    """Run one long command, showing each line as it comes."""
    lines = []
    with subprocess.Popen(
        argv,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\r\n"))
            show(lines[-1])
    return Done(process.returncode, tuple(lines))


def explain(lines: Sequence[str], otherwise: str, node: str | None = None) -> HallmarkError:
    """The error that docker's own words stand for: engine not reached, disk full, or `otherwise` with its last line.

    `node` says that they are about the engine of another node.
    """
    told = [line.strip() for line in lines if line.strip() and not _USAGE.match(line)]
    where = f"node {node}" if node else _where()
    another = (
        "correct the docker-host of that node" if node else "name another one with DOCKER_HOST or `docker context use`"
    )
    for line in reversed(told):
        if DISK_FULL in line.lower():
            return Refused(
                f"the engine's disk is full: {line}",
                where=where,
                hint="`docker system df` shows what fills it; `docker builder prune` frees caches",
            )
    for line in reversed(told):
        lower = line.lower()
        if "permission denied" in lower and ("docker daemon" in lower or "docker api" in lower):
            return Unreachable(
                "this user may not talk to the engine", where=where, hint="join the group that owns its socket"
            )
        if match := re.search(r"cannot connect to the docker daemon at (\S+?)\.? ", line, re.IGNORECASE):
            return Unreachable(f"no engine answers at {match[1]}", where=where, hint=f"start it, or {another}")
        if any(word in lower for word in _UNREACHABLE):
            return Unreachable(f"the engine cannot be reached: {line}", where=where, hint=another)
    return Refused(f"{otherwise}: {told[-1]}" if told else otherwise, where=where if node else None)


def _where() -> str | None:
    host = os.environ.get("DOCKER_HOST")
    return f"DOCKER_HOST={host}" if host else None
