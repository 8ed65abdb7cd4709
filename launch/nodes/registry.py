"""A registry on this machine's loopback for the time of a staging, and the way from a node to it through SSH.

Its content stays in the cache, so that the next image sends the registry only what is new.
"""

import fcntl
import json
import re
import shutil
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from launch.nodes import ssh
from launch.nodes.held import held
from launch.plan.place import Place
from recipe.config import paths
from recipe.errors import HallmarkError, Refused

PROGRAM = "docker-registry"
_START_SECONDS = 20
_ALLOCATED = re.compile(r"Allocated port (\d+) for remote forward")


@contextmanager
def serving() -> Iterator[int]:
    """Serve on a free port of 127.0.0.1, which is given. Only one command at a time does.

    Errors: HallmarkError without the program; Refused when it does not start.
    """
    program = shutil.which(PROGRAM) or shutil.which("registry")
    if program is None:
        raise HallmarkError(f"there is no program {PROGRAM}", hint=f"install the package {PROGRAM}")
    folder = paths.cache() / "registry"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        port = _free_port()
        settings = folder / "settings.yml"
        # JSON is YAML. Debian's own file asks for a password, so nothing of it is read.
        document = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
            "http": {"addr": f"127.0.0.1:{port}"},
        }
        settings.write_text(json.dumps(document))
        with held([program, "serve", str(settings)]):
            deadline = time.monotonic() + _START_SECONDS
            while not answers(port):
                if time.monotonic() > deadline:
                    raise Refused(f"{program} does not start", hint=f"try `{program} serve {settings}`")
                time.sleep(0.02)
            yield port


@contextmanager
def reachable(place: Place, port: int) -> Iterator[int]:
    """Make this machine's port reachable on the node's own loopback; gives the port there.

    Errors: Unreachable with ssh's reason.
    """
    if place.local:
        yield port
        return
    with held(ssh.forward(place, port)) as process:
        assert process.stderr is not None
        told = []
        for line in process.stderr:
            told.append(line)
            if match := _ALLOCATED.search(line):
                yield int(match[1])
                return
        raise ssh.failure(place, "".join(told))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def answers(port: int) -> bool:
    """Whether a registry serves on this port of the loopback address."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
