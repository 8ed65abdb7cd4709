"""Docker engines of their own: each with a socket, a data folder and a containerd of its own, without a bridge.

An engine so started touches no network setting of the machine, and no other engine.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from recipe.errors import Refused
from scripts.engines.network import Namespace
from scripts.engines.packages import program
from scripts.engines.process import Background

_START_SECONDS = 60
_COMMAND_SECONDS = 600


@dataclass(frozen=True)
class Engine:
    """A running engine. `host`: what DOCKER_HOST is to be; `client`: a docker program that can build on it; `network`:
    the namespace that it and all its containers are in, when that is not the machine's."""

    number: int
    folder: Path
    host: str
    client: str
    daemon: Background
    network: Namespace | None = None

    def docker(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run the docker program on this engine. Errors: Refused when `check` and it fails; TimeoutExpired."""
        argv = [self.client, "--host", self.host, *arguments]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=_COMMAND_SECONDS)
        if check and done.returncode:
            raise Refused(f"docker {' '.join(arguments[:2])}: {done.stderr.strip()}", where=self.host)
        return done

    def ready(self) -> None:
        """Wait until it answers. Errors: Refused."""
        self.daemon.wait(lambda: self.docker("version", check=False).returncode == 0, _START_SECONDS)

    def kill(self) -> None:
        """Kill its daemon, with which its containers end here."""
        self.daemon.kill()

    def again(self) -> None:
        """Start its daemon again after it was killed, with what it had. Errors: Refused."""
        (self.folder / "docker.pid").unlink(missing_ok=True)
        self.daemon.again()
        self.ready()

    def end(self) -> None:
        """End the engine and what runs on it, and remove its folder."""
        self.daemon.end()
        _unmount(self.folder)
        shutil.rmtree(self.folder)


def start(number: int, folder: Path, driver: str | None = None, network: Namespace | None = None) -> Engine:
    """Start engine `number` (1, 2, …) with everything below `folder`, whose path must be short for its sockets.

    `driver`: how it stores layers, when not in the way that it chooses itself.

    Errors: Refused with the last lines of its log.
    """
    dockerd, client = program("dockerd", "docker.io"), _client()
    folder.mkdir(parents=True, exist_ok=True)
    host = f"unix://{folder / 'docker.sock'}"
    argv = [
        *(network.enter if network else ()),
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
    made = Engine(number, folder, host, client, Background(argv, folder / "dockerd.log"), network)
    made.ready()
    return made


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
