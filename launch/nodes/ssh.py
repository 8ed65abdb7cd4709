"""Runs commands on nodes: over OpenSSH with the user's own configuration, or directly when the node is this machine.

Host keys are always checked, nothing is asked, and no agent is forwarded. HALLMARK_SSH_CONFIG names another
configuration file than the user's.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from launch.plan.place import Place
from recipe.errors import HallmarkError, Refused, Unreachable

VARIABLE = "HALLMARK_SSH_CONFIG"
CONNECT_SECONDS = 10
# A connection whose other end is silent for three of these is given up.
ALIVE_SECONDS = 5
_SECONDS = 60.0
# A connection that broke is made again once after so long.
_PAUSE = 1.0
# What ssh itself ends with when the command was never run.
FAILED = 255
# Gives the command's own 255 another number, so that 255 is always ssh's.
_APART = '"$@"; s=$?; [ $s -ne 255 ] || s=254; exit $s'
# Reads NAME=VALUE lines first: a value on the command line could be read by every user of the node.
_WITH_VARIABLES = 'while IFS= read -r line && [ -n "$line" ]; do export "$line"; done; ' + _APART


class Late(Unreachable):
    """A command that did not end in its time."""


def run(
    place: Place,
    argv: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    given: str = "",
    seconds: float | None = _SECONDS,
    once: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Run a command on the node and give its own status and output.

    `variables` are added to its environment without being seen on any command line; `given` is its input. When the
    connection breaks it is run again, so a command that must not be run twice is marked `once`.
    Errors: Unreachable when the node is not reached; Late when the command does not end within `seconds`.
    """
    at, told = _failed.get(place.address, (-_AGAIN_SECONDS, ""))
    if not place.local and time.monotonic() - at < _AGAIN_SECONDS:
        # Asked one after the other, the questions of one command would each wait for a node that is gone.
        raise failure(place, told)
    done = _attempt(place, argv, variables or {}, given, seconds)
    if place.local or done.returncode != FAILED:
        _reached.add(place.address)
        return done
    if not once and (place.address in _reached or _LOST.search(done.stderr)):
        time.sleep(_PAUSE)
        done = _attempt(place, argv, variables or {}, given, seconds)
    if done.returncode == FAILED:
        # What only broke may be asked at once what came of it.
        if not _LOST.search(done.stderr):
            _failed[place.address] = (time.monotonic(), done.stderr)
        raise failure(place, done.stderr)
    return done


def _attempt(
    place: Place, argv: Sequence[str], variables: Mapping[str, str], given: str, seconds: float | None
) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **variables}
    words = list(argv)
    if not place.local:
        environment = dict(os.environ)
        if variables:
            given = lines(variables) + given
        words = command(place, argv, shared=True, variables=bool(variables))
    try:
        return subprocess.run(
            words,
            check=False,
            text=True,
            errors="replace",
            env=environment,
            timeout=seconds,
            capture_output=True,
            input=given,
            # A Ctrl-C is for this program, which ends what it must in order.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise Unreachable(f"node {place.name}: there is no program {words[0]} on this machine") from None
    except subprocess.TimeoutExpired:
        what = shlex.join(argv[:3])
        hint = "run it there by hand, and restart what hangs"
        raise Late(f"node {place.name} did not end `{what} …` within {seconds:g} s", hint=hint) from None


def command(
    place: Place,
    argv: Sequence[str],
    *,
    shared: bool = False,
    options: Sequence[str] = (),
    variables: bool = False,
) -> list[str]:
    """The ssh command that runs `argv` on the node; only here a remote shell sees words, quoted once.

    `shared`: over one connection that this program keeps; `variables`: the command reads them from its input.
    """
    words = [*_ssh(), *options]
    if shared:
        words += ["-o", "ControlMaster=auto", "-o", f"ControlPath={_sockets()}/%C", "-o", "ControlPersist=20"]
    script = _WITH_VARIABLES if variables else _APART
    return [*words, "--", place.address, shlex.join(["sh", "-c", script, "sh", *argv])]


def forward(place: Place, port: int) -> list[str]:
    """The ssh command that makes `port` of this machine's loopback a port of the node's, and says on standard error
    which one. It runs until it is ended."""
    options = ["-N", "-o", "LogLevel=INFO", "-o", "ExitOnForwardFailure=yes", "-o", "ControlPath=none"]
    return [*_ssh(), *options, "-R", f"127.0.0.1:0:127.0.0.1:{port}", "--", place.address]


def failure(place: Place, told: str) -> Unreachable:
    """The error that ssh's own words stand for."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    # Host keys first: what follows them is only that the connection was closed.
    for pattern, what, hint in _FAILURES:
        for line in lines:
            if re.search(pattern, line, re.IGNORECASE):
                return Unreachable(f"node {place.name}: {what}", where=place.address, hint=hint)
    last = lines[-1] if lines else "ssh said nothing"
    return Unreachable(f"node {place.name} cannot be reached: {last}", where=place.address, hint="try it with ssh")


_FAILURES = (
    (
        "HOST IDENTIFICATION HAS CHANGED",
        "its host key is another one than known",
        "find out why before you remove the old key with ssh-keygen -R",
    ),
    (
        "Host key verification failed|host key is known for",
        "its host key is not known here",
        "log in once with ssh and compare the fingerprint",
    ),
    ("Permission denied", "it does not let this user in", "set up a key that works with `ssh -o BatchMode=yes`"),
    ("Connection refused", "it refuses SSH connections", "start its sshd, or correct the address or port"),
    ("timed out", f"no answer within {CONNECT_SECONDS} s", "is it switched on, and on this network?"),
    ("Could not resolve", "its name is not known", "correct the address, or add the host to your ssh_config"),
    ("No route to host|Network is unreachable", "there is no way to it", "is it switched on, and on this network?"),
)


# Addresses that were reached by this program: when one is not any more, that may pass.
_reached: set[str] = set()
# Those that were not, with when that was found and what ssh told; they are not asked again for a moment.
_failed: dict[str, tuple[float, str]] = {}
_AGAIN_SECONDS = 3.0
_LOST = re.compile(r"closed by remote host|Connection closed|Connection reset|Broken pipe", re.IGNORECASE)


def _ssh() -> list[str]:
    own = os.environ.get(VARIABLE)
    if own is not None and not Path(own).is_file():
        raise HallmarkError(f"there is no file {own!r}", where=VARIABLE, hint="name a file as ssh -F takes it")
    return [
        "ssh",
        *(["-F", own] if own else []),
        "-T",
        "-o",
        "BatchMode=yes",
        "-o",
        f"ConnectTimeout={CONNECT_SECONDS}",
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "ForwardAgent=no",
        "-o",
        f"ServerAliveInterval={ALIVE_SECONDS}",
        "-o",
        "ServerAliveCountMax=3",
    ]


def lines(variables: Mapping[str, str]) -> str:
    """What a command that reads variables is given first. Errors: Refused for a value of several lines."""
    for name, value in variables.items():
        if "\n" in value:
            raise Refused(f"the value of {name} has more than one line", hint="use a secret of one line")
    return "".join(f"{name}={value}\n" for name, value in variables.items()) + "\n"


@cache
def _sockets() -> str:
    """A folder for the connections of this program, with a path that is short enough for sockets."""
    folder = tempfile.mkdtemp(prefix="hallmark-ssh-")
    atexit.register(_close, folder, os.getpid())
    return folder


def _close(folder: str, pid: int) -> None:
    # A forked child has a copy of this; the connections are its parent's.
    if os.getpid() != pid:
        return
    for socket in Path(folder).iterdir():
        words = ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "any"]
        subprocess.run(words, check=False, stdin=subprocess.DEVNULL, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
