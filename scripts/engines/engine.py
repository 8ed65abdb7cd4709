"""Docker engines of their own: each with a socket, a data folder and a containerd of its own, without a bridge.

An engine so started touches no network setting of the machine, and no other engine.
"""

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from recipe.errors import Refused
from scripts.engines.packages import program
from scripts.engines.process import Background

_START_SECONDS = 60


@dataclass(eq=False)
class Engine:
    """A running engine. `host`: what DOCKER_HOST is to be; `client`: a docker program that can build on it; `argv`: how
    its daemon is started."""

    number: int
    folder: Path
    host: str
    client: str
    argv: list[str]
    daemon: Background

    def docker(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run the docker program on this engine. Errors: Refused when `check` and it fails."""
        argv = [self.client, "--host", self.host, *arguments]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        if check and done.returncode:
            raise Refused(f"docker {' '.join(arguments[:2])}: {done.stderr.strip()}", where=self.host)
        return done

    def kill(self) -> None:
        """Kill its daemon, with which its containers end here."""
        os.kill(self.daemon.pid, signal.SIGKILL)
        self.daemon.end()

    def again(self) -> None:
        """Start its daemon again, with what it had."""
        (self.folder / "docker.pid").unlink(missing_ok=True)
        self.daemon = _daemon(self.argv, self.folder, self.client)

    def end(self) -> None:
        """End the engine and what runs on it, and remove its folder."""
        self.daemon.end()
        _unmount(self.folder)
        shutil.rmtree(self.folder)


def start(number: int, folder: Path, driver: str | None = None) -> Engine:
    """Start engine `number` (1, 2, …) with everything below `folder`, whose path must be short for its sockets.

    `driver`: how it stores layers, when not in the way that it chooses itself.

    Errors: Refused with the last lines of its log.
    """
    dockerd, client = program("dockerd", "docker.io"), _client()
    folder.mkdir(parents=True, exist_ok=True)
    host = f"unix://{folder / 'docker.sock'}"
    argv = [
        dockerd,
        f"--host={host}",
        f"--data-root={folder / 'data'}",
        f"--exec-root={folder / 'exec'}",
        f"--pidfile={folder / 'docker.pid'}",
        # Containers use the host's network; the machine's firewall and interfaces stay as they are.
        "--bridge=none",
        "--iptables=false",
        # Where the system's containerd runs, the engines must not see each other's containers in it.
        f"--containerd-namespace=hallmark-{number}",
        f"--containerd-plugins-namespace=hallmark-{number}-plugins",
        *([f"--storage-driver={driver}"] if driver else []),
    ]
    return Engine(number, folder, host, client, argv, _daemon(argv, folder, client))


def _daemon(argv: list[str], folder: Path, client: str) -> Background:
    daemon = Background(argv, folder / "dockerd.log")
    socket = folder / "docker.sock"
    answers = [client, "--host", f"unix://{socket}", "version"]
    daemon.wait(
        lambda: socket.exists() and subprocess.run(answers, capture_output=True).returncode == 0, _START_SECONDS
    )
    return daemon


def _unmount(folder: Path) -> None:
    """An engine leaves the network namespaces of its containers mounted when it ends."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    below = [place for line in lines if (place := line.split(" ")[1]).startswith(f"{folder}/")]
    for place in reversed(below):
        subprocess.run(["umount", place], check=False, capture_output=True)


def _client() -> str:
    program("docker", "docker.io")
    from recipe.image import client

    return client.find().program
