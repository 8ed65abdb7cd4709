"""Network namespaces for nodes that can be cut off: each has a link to this machine, as to an office network, and all
have one cable between them, as two Sparks have.

Names and addresses are chosen so that several can exist at once; nothing else of the machine's network changes.
"""

import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from recipe.errors import Refused
from scripts.engines.packages import program

_OFFICE, _CABLE = "office", "fabric"
_SYS = (
    "mount --rbind /sys/fs/cgroup /mnt && mount -t sysfs sysfs /sys && mount --rbind /mnt /sys/fs/cgroup"
    ' && umount -l /mnt && exec "$@"'
)


@dataclass(frozen=True)
class Namespace:
    """One node's network. `address`: where this machine reaches it, from `gateway`; `fabric`: its end of the cable."""

    name: str
    address: str
    gateway: str
    fabric: str

    @property
    def enter(self) -> tuple[str, ...]:
        """What stands before a command that is to run in it; unlike `ip netns exec` it leaves /sys as it is."""
        return ("nsenter", f"--net=/run/netns/{self.name}", "--")

    @property
    def look(self) -> tuple[str, ...]:
        """As `enter`, with a /sys that has its interfaces and still the machine's control groups."""
        return (*self.enter, "unshare", "--mount", "sh", "-c", _SYS, "sh")

    def vanish(self) -> None:
        """Nothing reaches it any more, and it reaches nothing: as without power, but that its processes live."""
        self.unplug()
        # Its own end: what this machine sends is lost, and nobody here is told so.
        _ip("-n", self.name, "link", "set", _OFFICE, "down")

    def unplug(self) -> None:
        """Pull the cable to the other nodes only."""
        _ip("-n", self.name, "link", "set", _CABLE, "down")

    def back(self) -> None:
        """As it was before."""
        for device in (_OFFICE, _CABLE):
            _ip("-n", self.name, "link", "set", device, "up")
        _ip("-n", self.name, "route", "replace", "default", "via", self.gateway)

    @property
    def linked(self) -> bool:
        """Whether both links are up, which the kernel says a moment after they are."""
        return all("state UP" in _ip("-n", self.name, "-o", "link", "show", it) for it in (_OFFICE, _CABLE))


@contextmanager
def two() -> Iterator[list[Namespace]]:
    """Two of them with a cable between; removed at the end. Errors: Refused where none can be made."""
    program("ip", "iproute2")
    program("nsenter", "util-linux")
    tag, net = f"{random.getrandbits(24):06x}", random.randint(64, 250)
    made: list[Namespace] = []
    with ExitStack() as stack:
        for number in (1, 2):
            it = Namespace(f"hm-{tag}-{number}", f"10.{net}.{number}.2", f"10.{net}.{number}.1", f"10.{net}.9.{number}")
            link = f"hm{tag}-{number}"
            _ip("netns", "add", it.name)
            stack.callback(_ip, "netns", "delete", it.name)
            _ip("link", "add", link, "type", "veth", "peer", "name", _OFFICE, "netns", it.name)
            # A namespace lives on for as long as a process or a mount has it.
            stack.callback(_ip, "link", "delete", link)
            _ip("address", "add", f"{it.gateway}/30", "dev", link)
            _ip("link", "set", link, "up")
            _ip("-n", it.name, "link", "set", "lo", "up")
            _ip("-n", it.name, "address", "add", f"{it.address}/30", "dev", _OFFICE)
            made.append(it)
        first, second = made
        _ip("-n", first.name, "link", "add", _CABLE, "type", "veth", "peer", "name", _CABLE, "netns", second.name)
        for it in made:
            _ip("-n", it.name, "address", "add", f"{it.fabric}/24", "dev", _CABLE)
            it.back()
            _ip("route", "add", f"{it.fabric}/32", "via", it.address)
        yield made


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"ip {' '.join(words)}: {done.stderr.strip()}", hint="run this as root")
    return done.stdout
