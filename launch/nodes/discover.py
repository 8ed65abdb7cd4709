"""Chooses what a cluster file says of nodes from what is known of them. Pure."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from launch.nodes.node import Interface, NodeFacts
from launch.nodes.preflight.network import of_interface
from recipe.config.models import Hardware

# Interfaces that never are a cable between machines.
_NOT_A_CABLE = ("lo", "docker", "veth", "br-", "virbr", "tailscale", "wg", "wl", "cni", "flannel", "tun", "tap")


@dataclass(frozen=True)
class Ends:
    """A node's end of the fabric; `hca` are its RDMA devices, both halves of each port."""

    fabric: str
    interface: str
    hca: str | None


@dataclass(frozen=True)
class Way:
    """A network that all nodes have, with each one's end, in their order. `rdma`: all ends have devices; `speed`:
    Mbit/s of the slowest, 0 when one does not say."""

    network: str
    ends: tuple[Ends, ...]
    rdma: bool
    speed: int

    def __str__(self) -> str:
        speed = f", {self.speed / 1000:g} Gbit/s" if self.speed else ""
        names = ", ".join(f"{end.fabric} on {end.interface}" for end in self.ends)
        return f"{self.network} ({names}{speed}{', RDMA' if self.rdma else ''})"


def ways(nodes: Sequence[NodeFacts]) -> list[Way]:
    """Networks that all nodes have, the best one first: with RDMA, then the fastest."""
    found = []
    for network, _, _ in _networks(nodes[0]):
        ends, speeds = [], []
        for facts in nodes:
            mine = [(address, it) for its, address, it in _networks(facts) if its == network]
            if not mine:
                break
            address, interface = mine[0]
            devices = [it.name for it in of_interface(facts, interface.name) if _active(facts, it.name)]
            ends.append(Ends(address, interface.name, ",".join(devices) or None))
            speeds.append(interface.speed or 0)
        if len(ends) == len(nodes) and len({end.fabric for end in ends}) == len(ends):
            way = Way(str(network), tuple(ends), all(end.hca for end in ends), min(speeds))
            if way not in found:
                found.append(way)
    # Of the halves of one port the first by its PCI address: the other one is often left without an address.
    slots = {netdev: it.slot or "" for it in nodes[0].rdma for netdev in it.netdevs}
    return sorted(found, key=lambda way: (not way.rdma, -way.speed, slots.get(way.ends[0].interface, "")))


def unaddressed(facts: NodeFacts) -> list[str]:
    """Interfaces with a cable and an RDMA device, but without an IPv4 address."""
    return [
        it.name
        for it in facts.interfaces
        if it.state == "up" and not list(_v4(it)) and any(_active(facts, d.name) for d in of_interface(facts, it.name))
    ]


def fits(hardware: Hardware, facts: NodeFacts) -> bool:
    """Whether a node is of this kind, as far as it says."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(facts.machine, facts.machine)
    if machine != hardware.architecture:
        return False
    if hardware.device == "cpu":
        return not facts.gpus
    return len(facts.gpus) >= hardware.gpus and facts.gpus[0].capability == hardware.capability


def _networks(facts: NodeFacts) -> list[tuple[ipaddress.IPv4Network, str, Interface]]:
    return [
        (network.network, str(network.ip), it)
        for it in facts.interfaces
        if it.state != "down" and not it.name.startswith(_NOT_A_CABLE)
        for network in _v4(it)
    ]


def _v4(interface: Interface) -> list[ipaddress.IPv4Interface]:
    found = (ipaddress.ip_interface(text) for text in interface.networks if "/" in text)
    return [it for it in found if isinstance(it, ipaddress.IPv4Interface) and not it.is_link_local]


def _active(facts: NodeFacts, name: str) -> bool:
    return any(port.state == "ACTIVE" for it in facts.rdma if it.name == name for port in it.ports)
