"""Two nodes in network namespaces of their own, on one cable of two virtual interfaces, each reached over real SSH.

An sshd is started for each connection inside of its namespace (as inetd would), so that nothing listens and nothing is
left behind. Processes, files and devices are this machine's.
"""

import os
import pwd
import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from recipe.errors import Refused
from scripts.engines.packages import program


@dataclass(frozen=True)
class Space:
    """A node: `host` of the ssh configuration, its namespace, its interface and address on the cable."""

    host: str
    namespace: str
    interface: str
    address: str

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in the namespace."""
        argv = ["ip", "netns", "exec", self.namespace, *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True)


@contextmanager
def two(folder: Path) -> Iterator[tuple[Space, Space, Path]]:
    """Both nodes and the file for `ssh -F`. Errors: Refused where namespaces are not allowed."""
    ip, sshd = program("ip", "iproute2"), program("sshd", "openssh-server")
    keygen = program("ssh-keygen", "openssh-client")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    tag = f"{random.getrandbits(24):06x}"
    # Hosts of names that were never used: an open connection to one would be to a namespace that is gone.
    spaces = [Space(f"space-{n}-{tag}", f"hm-{tag}-{n}", f"hm{tag}{n}", f"10.99.77.{n}") for n in (1, 2)]
    _key(keygen, folder / "id")
    with ExitStack() as stack:
        for space in spaces:
            _ip(ip, "netns", "add", space.namespace)
            stack.callback(_ip, ip, "netns", "delete", space.namespace)
            _ip(ip, "-n", space.namespace, "link", "set", "lo", "up")
        first, second = spaces
        _ip(ip, "link", "add", first.interface, "type", "veth", "peer", "name", second.interface)
        for space in spaces:
            _ip(ip, "link", "set", space.interface, "netns", space.namespace)
            _ip(ip, "-n", space.namespace, "addr", "add", f"{space.address}/24", "dev", space.interface)
            _ip(ip, "-n", space.namespace, "link", "set", space.interface, "up")
        config = folder / "config"
        config.write_text("".join(_settings(ip, sshd, keygen, space, folder) for space in spaces))
        yield first, second, config


def _settings(ip: str, sshd: str, keygen: str, space: Space, folder: Path) -> str:
    key = folder / f"{space.host}.key"
    _key(keygen, key)
    with (folder / "known_hosts").open("a") as known:
        known.write(f"{space.host} {key.with_suffix('.key.pub').read_text().strip()}\n")
    server = folder / f"{space.host}.conf"
    server.write_text(
        f"HostKey {key}\nAuthorizedKeysFile {folder / 'id.pub'}\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\nPidFile none\nPermitRootLogin yes\n"
        f"SetEnv PATH={os.environ['PATH']} SHLVL=1\n"
    )
    return (
        f"Host {space.host}\n  User {pwd.getpwuid(os.getuid()).pw_name}\n  IdentityFile {folder / 'id'}\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {folder / 'known_hosts'}\n  HostKeyAlias {space.host}\n"
        f"  ProxyCommand {ip} netns exec {space.namespace} {sshd} -i -f {server}\n"
    )


def _key(keygen: str, path: Path) -> None:
    if not path.exists():
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)], check=True)


def _ip(ip: str, *words: str) -> None:
    done = subprocess.run([ip, *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"ip {' '.join(words)}: {done.stderr.strip()}", hint="run this as root, where namespaces work")
