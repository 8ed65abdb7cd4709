"""Network namespaces for nodes that can be cut off: each has a link to this machine, as to an office network, and all
have one cable between them, as two Sparks have.

Names and addresses are chosen so that several can exist at once; nothing else of the machine's network changes.
"""

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from recipe.errors import Refused
from scripts.engines.packages import program


@dataclass(frozen=True)
class Namespace:
    """One node's network. `address`: where this machine reaches it; `fabric`: its end of the cable."""

    name: str
    address: str
    fabric: str
    link: str
    cable: str

    @property
    def enter(self) -> tuple[str, ...]:
        """What stands before a command that is to run in it; unlike `ip netns exec` it leaves /sys as it is."""
        return ("nsenter", f"--net=/run/netns/{self.name}", "--")

    def vanish(self) -> None:
        """Nothing reaches it any more, and it reaches nothing: as without power, but that its processes live."""
        self.unplug()
        _ip("link", "set", self.link, "down")

    def unplug(self) -> None:
        """Pull the cable to the other nodes only."""
        _ip("-n", self.name, "link", "set", self.cable, "down")

    def back(self) -> None:
        """As it was before."""
        _ip("link", "set", self.link, "up")
        _ip("route", "replace", f"{self.fabric}/32", "dev", self.link, "via", self.address)
        _ip("-n", self.name, "link", "set", self.cable, "up")


@contextmanager
def two() -> Iterator[list[Namespace]]:
    """Two of them with a cable between; removed at the end. Errors: Refused where none can be made."""
    program("ip", "iproute2")
    program("nsenter", "util-linux")
    tag, net = f"{os.getpid():x}"[-5:], random.randint(64, 250)
    made: list[Namespace] = []
    with ExitStack() as stack:
        for number in (1, 2):
            it = Namespace(
                f"hm{tag}-{number}", f"10.{net}.{number}.2", f"10.{net}.9.{number}", f"hm{tag}l{number}", "fabric"
            )
            _ip("netns", "add", it.name)
            stack.callback(_ip, "netns", "del", it.name)
            _ip("link", "add", it.link, "type", "veth", "peer", "name", "office", "netns", it.name)
            # A namespace lives on for as long as a process or a mount has it.
            stack.callback(_ip, "link", "del", it.link)
            _ip("address", "add", f"10.{net}.{number}.1/30", "dev", it.link)
            _ip("-n", it.name, "address", "add", f"{it.address}/30", "dev", "office")
            for device in ("lo", "office"):
                _ip("-n", it.name, "link", "set", device, "up")
            _ip("link", "set", it.link, "up")
            _ip("-n", it.name, "route", "add", "default", "via", f"10.{net}.{number}.1")
            made.append(it)
        first, second = made
        _ip("-n", first.name, "link", "add", "fabric", "type", "veth", "peer", "name", "fabric", "netns", second.name)
        for it in made:
            _ip("-n", it.name, "address", "add", f"{it.fabric}/24", "dev", it.cable)
            it.back()
        yield made


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"ip {' '.join(words)}: {done.stderr.strip()}", hint="run this as root")
