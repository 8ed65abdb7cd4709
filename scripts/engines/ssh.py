"""An sshd on loopback in front of each engine, so that an engine is a node like any that is reached over SSH.

Keys and settings are its own; the user's and the system's are not read and not changed.
"""

import os
import pwd
import shlex
import signal
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.engines.engine import Engine
from scripts.engines.network import Namespace
from scripts.engines.packages import program
from scripts.engines.process import Background

_PORT = 2200
_COMMAND_SECONDS = 600


@dataclass(frozen=True)
class Node:
    """An engine behind its sshd. `name`: a host of `config`, what `configure` writes."""

    name: str
    address: str
    port: int
    host_key: Path
    config: Path
    daemon: Background

    def ssh(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command on the node. Errors: TimeoutExpired."""
        argv = ["ssh", "-F", str(self.config), self.name, shlex.join(command)]
        return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=_COMMAND_SECONDS)

    def lose(self) -> int:
        """Break all connections that are open, and go on listening; returns how many there were."""
        children = Path(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children").read_text().split()
        for pid in children:
            os.kill(int(pid), signal.SIGKILL)
        return len(children)

    def end(self) -> None:
        """End the sshd; connections that are open end with it."""
        self.daemon.end()


def start(engine: Engine, folder: Path) -> Node:
    """Start the sshd of one engine: engine N is reached as `node-N`, on 127.0.0.N or in its network namespace.

    `folder` gets the keys of all nodes and the one key that may log in.
    """
    variables = {"DOCKER_HOST": engine.host}
    if engine.network is not None:
        # What has a network of its own has files of its own too.
        home = engine.folder / "home"
        home.mkdir()
        variables["HOME"] = str(home)
    return serve(engine.number, folder, variables, engine.network)


def serve(number: int, folder: Path, variables: Mapping[str, str], within: Namespace | None = None) -> Node:
    """Start the sshd of a node that has these variables, such as a HOME of its own; `within`: its network."""
    sshd, keygen = program("sshd", "openssh-server"), program("ssh-keygen", "openssh-client")
    # sshd refuses to start without it; the package's service would make it.
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name, port = f"node-{number}", _PORT + number
    address = within.address if within else f"127.0.0.{number}"
    key = folder / f"{name}.key"
    _key(keygen, key)
    _key(keygen, folder / "id")
    settings = folder / f"{name}.conf"
    given = " ".join(f"{key}={value}" for key, value in variables.items())
    settings.write_text(
        f"ListenAddress {address}:{port}\n"
        f"HostKey {key}\n"
        f"AuthorizedKeysFile {folder / 'id.pub'}\n"
        f"PidFile {folder / f'{name}.pid'}\n"
        "PasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\n"
        "UsePAM no\n"
        # The folder may be below one that others can write to, such as /tmp.
        "StrictModes no\n"
        "MaxStartups 100\n"
        # At this level bash does not read the user's .bashrc for every command, which may take half a second.
        f"SetEnv {given} PATH={os.environ['PATH']} SHLVL=1\n"
    )
    daemon = Background(
        [*(within.look if within else ()), sshd, "-D", "-e", "-f", str(settings)], folder / f"{name}.log"
    )
    daemon.wait(lambda: _listens(address, port), 10)
    return Node(name, address, port, folder / f"{name}.key.pub", folder / "config", daemon)


def configure(nodes: list[Node], folder: Path) -> Path:
    """Write `known_hosts` and the file for `ssh -F` with everything about these nodes; returns the latter."""
    known = [f"[{node.address}]:{node.port} {node.host_key.read_text().strip()}\n" for node in nodes]
    (folder / "known_hosts").write_text("".join(known))
    config = folder / "config"
    config.write_text("".join(_client_settings(node, folder) for node in nodes))
    return config


def _client_settings(node: Node, folder: Path) -> str:
    return (
        f"Host {node.name} {node.address}\n"
        f"  HostName {node.address}\n"
        f"  Port {node.port}\n"
        f"  User {pwd.getpwuid(os.getuid()).pw_name}\n"
        f"  IdentityFile {folder / 'id'}\n"
        "  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder / 'known_hosts'}\n"
        "  StrictHostKeyChecking yes\n"
        "  BatchMode yes\n"
        # A node that was cut off does not hold up who asks it.
        "  ConnectTimeout 20\n"
    )


def _key(keygen: str, path: Path) -> None:
    if not path.exists():
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)], check=True)


def _listens(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0
