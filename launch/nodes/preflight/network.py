"""Checks of the network between the nodes: interfaces, addresses, RDMA devices. One node alone has none."""

import ipaddress
import re
from collections.abc import Iterator

from launch.nodes.node import Interface, NodeFacts, Rdma
from launch.nodes.preflight.site import Found, Machine, Site, Verdict, passed
from launch.plan.group import RankPlan
from recipe.config.models import Node

_V2 = "RoCE v2"


def interfaces(site: Site) -> Iterator[Found]:
    """The fabric's interface exists on that very node, is up, and carries the fabric address."""
    for rank, machine, node in _fabric(site):
        facts, fabric = machine.facts, str(node.fabric)
        holder = next((it for it in facts.interfaces if fabric in it.addresses), None)
        known = [it for it in facts.interfaces if it.name == node.interface]
        if node.interface is not None and not known:
            there = ", ".join(it.name for it in facts.interfaces) or "none"
            message = f"there is no interface {node.interface}"
            hint = f"names differ between machines; there are {there}"
            yield _bad(site, rank, "interface", message, hint, "interface")
        elif not any(it.addresses for it in facts.interfaces):
            message = "its addresses cannot be seen: there is no program ip"
            yield Found("interface", rank.name, Verdict.WARN, message, "install iproute2 there")
        elif holder is None and not ipaddress.ip_address(fabric).is_loopback:
            yield _bad(site, rank, "interface", f"no interface has the address {fabric}", _give(node), "fabric")
        elif holder is not None and known and holder.name != node.interface:
            message = f"{fabric} is on {holder.name}, not on {node.interface}"
            yield _bad(site, rank, "interface", message, f"write `interface: {holder.name}`", "interface")
        elif holder is not None and holder.state == "down":
            hint = f"plug the cable in, or `sudo ip link set {holder.name} up` there"
            yield _bad(site, rank, "interface", f"{holder.name} is down", hint, "interface")
        elif holder is not None:
            speed = f", {holder.speed / 1000:g} Gbit/s" if holder.speed else ""
            yield passed("interface", rank.name, f"{holder.name} has {fabric}{speed}")


def routes(site: Site) -> Iterator[Found]:
    """The other nodes are reached through the fabric's interface, not by a way around it."""
    for rank, machine, node in _fabric(site):
        holder = _holder(machine.facts, node)
        # Of a wrong interface that is said already.
        if holder is None or holder.name != node.interface:
            continue
        for peer, via in machine.facts.routes.items():
            if peer == node.fabric or via in (node.interface, "lo"):
                continue
            message = f"{peer} is reached through {via}, not {node.interface}" if via else f"there is no way to {peer}"
            hint = "give both ends addresses of one subnet of their own, which no other interface has"
            yield Found("interface", rank.name, Verdict.FAIL, message, hint, site.where(rank.name, "fabric"))


def mtu(site: Site) -> Iterator[Found]:
    """All fabric interfaces have the same MTU: larger packets than the other end takes are lost without a word."""
    found = {}
    for rank, machine, node in _fabric(site):
        holder = _holder(machine.facts, node)
        if holder is not None and holder.mtu is not None and holder.name != "lo":
            found[rank.name] = (holder, holder.mtu)
    sizes = {size for _, size in found.values()}
    if len(sizes) > 1:
        largest = max(sizes)
        for name, (holder, size) in found.items():
            if size < largest:
                others = ", ".join(other for other, (_, its) in found.items() if its == largest)
                yield Found(
                    "mtu",
                    name,
                    Verdict.FAIL,
                    f"{holder.name} has MTU {size}, {others} has {largest}",
                    f"`sudo ip link set {holder.name} mtu {largest}` there, and in its netplan file",
                    site.where(name, "interface"),
                )
    elif sizes:
        yield passed("mtu", None, f"{sizes.pop()} on {', '.join(found)}")


def speed(site: Site) -> Iterator[Found]:
    """The fabric is as fast at both ends; a slow one is usually the wrong interface."""
    found = {}
    for rank, machine, node in _fabric(site):
        holder = _holder(machine.facts, node)
        if holder is not None and holder.speed:
            found[rank.name] = holder.speed
    if len(set(found.values())) > 1:
        told = ", ".join(f"{speed / 1000:g} Gbit/s on {name}" for name, speed in found.items())
        hint = "use the same kind of port and an approved cable at both ends"
        yield Found("speed", None, Verdict.WARN, f"the fabric's interfaces differ: {told}", hint)


def devices(site: Site) -> Iterator[Found]:
    """The RDMA devices that are named exist and are active; NCCL takes TCP in their place without a word."""
    for rank, machine, node in _fabric(site):
        written = _written(rank)
        if written is None and not _wants_rdma(rank):
            continue
        facts = machine.facts
        if not facts.rdma:
            message = "there are no RDMA devices, so NCCL would use TCP"
            hint = "load the driver (`modprobe mlx5_ib`); `ls /sys/class/infiniband` there lists them"
            yield _bad(site, rank, "hca", message, hint, "hca")
            continue
        if written is None:
            names = ",".join(it.name for it in of_interface(facts, node.interface))
            message = "no `hca` is written, so NCCL chooses among all devices"
            hint = f"write `hca: {names}`" if names else "write the fabric's devices"
            yield Found("hca", rank.name, Verdict.WARN, message, hint, site.where(rank.name, "interface"))
            continue
        yield from _named(site, rank, facts, node, written)


def _named(site: Site, rank: RankPlan, facts: NodeFacts, node: Node, written: str) -> Iterator[Found]:
    chosen, missing = chosen_devices(written, facts)
    for name in missing:
        there = ", ".join(it.name for it in facts.rdma)
        message = f"there is no RDMA device {name}, so NCCL would use what is left, or TCP"
        yield _bad(site, rank, "hca", message, f"there are {there}", "hca")
    if not chosen:
        if not missing:
            yield _bad(site, rank, "hca", f"{written} leaves no device", "name the fabric's devices", "hca")
        return
    dead = [it for it in chosen if not any(port.state == "ACTIVE" for port in it.ports)]
    for device in dead:
        hint = "plug the cable in, and take a device without one out of `hca`"
        yield _bad(site, rank, "hca", f"{device.name} has no active port", hint, "hca")
    if not dead and not missing:
        yield passed("hca", rank.name, ", ".join(it.name for it in chosen))
    netdevs = {name for it in chosen for name in it.netdevs}
    holder = _holder(facts, node)
    if holder is not None and holder.name == node.interface and netdevs and node.interface not in netdevs:
        message = f"{written} are devices of {', '.join(sorted(netdevs))}, not of {node.interface}"
        names = ",".join(it.name for it in of_interface(facts, node.interface)) or "its devices"
        yield Found("hca", rank.name, Verdict.WARN, message, f"write {names}", site.where(rank.name, "hca"))
    yield from _twins(site, rank, facts, chosen)


def _twins(site: Site, rank: RankPlan, facts: NodeFacts, chosen: list[Rdma]) -> Iterator[Found]:
    names = {it.name for it in chosen}
    missing = sorted({other.name for it in chosen for other in twins(it, facts)} - names)
    if missing:
        yield Found(
            "twins",
            rank.name,
            Verdict.WARN,
            f"{', '.join(missing)} is the other half of a port of {', '.join(sorted(names))}: the link runs at half"
            " its speed",
            f"write `hca: {','.join(sorted({*names, *missing}, key=str.lower))}`",
            site.where(rank.name, "hca"),
        )
    elif any(twins(it, facts) for it in chosen):
        yield passed("twins", rank.name, "both halves of the port are used")


def gids(site: Site) -> Iterator[Found]:
    """The entry of the address table that NCCL is told to use is RoCE v2 with this node's address (per node)."""
    told = {}
    for rank, machine, _ in _fabric(site):
        written = _written(rank)
        chosen = chosen_devices(written, machine.facts)[0] if written else []
        ethernet = [it for it in chosen if any(port.layer == "Ethernet" for port in it.ports)]
        wanted = rank.env.get("NCCL_IB_GID_INDEX")
        for device in ethernet:
            usable = [gid.index for port in device.ports for gid in port.gids if gid.kind == _V2 and _v4(gid.address)]
            if wanted is None:
                if usable:
                    told[f"{device.name} on {rank.name}"] = usable[0]
                continue
            if wanted.isdigit() and int(wanted) in usable:
                yield passed("gid", rank.name, f"{wanted} of {device.name} is {_V2}")
                continue
            hint = "give its interface an IPv4 address"
            if usable:
                hint = (
                    f"indices differ between nodes: write {usable[0]} under the env of {rank.name}, or leave the"
                    " variable out, and NCCL looks itself"
                )
            yield Found(
                "gid",
                rank.name,
                Verdict.FAIL,
                f"NCCL_IB_GID_INDEX is {wanted}, which is no {_V2} entry with an IPv4 address of {device.name}",
                hint,
            )
    if told:
        shown = ", ".join(f"{index} of {name}" for name, index in told.items())
        yield passed("gid", None, f"NCCL looks itself; {_V2} is {shown}")


def permissions(site: Site) -> Iterator[Found]:
    """RDMA needs /dev/infiniband and memory that stays where it is."""
    for rank, machine, _ in _fabric(site):
        if _written(rank) is None and not _wants_rdma(rank):
            continue
        if not any(name.startswith("uverbs") for name in machine.facts.rdma_devices):
            hint = "load the driver (`modprobe ib_uverbs mlx5_ib`) there"
            message = "there is no /dev/infiniband/uverbs*, so NCCL would use TCP"
            yield Found("rdma", rank.name, Verdict.FAIL, message, hint)
            continue
        box = rank.container
        lacking = []
        if box is not None and box.adopted is None:
            lacking += [] if "/dev/infiniband" in box.devices else ["infiniband: true"]
            lacking += [] if box.ulimits.get("memlock") == -1 else ["memlock: true"]
            lacking += [] if "IPC_LOCK" in box.cap_add else ["ipc-lock: true"]
        elif box is None and machine.facts.memlock not in (-1, None):
            message = f"memory that may be locked is limited to {machine.facts.memlock} bytes"
            hint = "`* - memlock unlimited` in /etc/security/limits.conf there, and log in again"
            yield Found("rdma", rank.name, Verdict.FAIL, message, hint)
            continue
        if lacking:
            message = "RDMA devices are named, but the container does not get what they need"
            hint = f"write {' and '.join(f'`{it}`' for it in lacking)} under the profile's container"
            yield Found("rdma", rank.name, Verdict.FAIL, message, hint)
        else:
            yield passed("rdma", rank.name, "/dev/infiniband and locked memory")


def chosen_devices(text: str, facts: NodeFacts) -> tuple[list[Rdma], list[str]]:
    """The devices that NCCL_IB_HCA means on a node, and the names in it that it does not have.

    `^` excludes, `=` asks for whole names and not their beginnings, `:1` is a port, as NCCL's documentation has it.
    """
    marks = re.match(r"[\^=]*", text)
    found = marks[0] if marks else ""
    words = [word.partition(":")[0].strip() for word in text[len(found) :].split(",") if word.strip()]

    def fits(name: str, word: str) -> bool:
        return name == word if "=" in found else name.startswith(word)

    hit = [it for it in facts.rdma if any(fits(it.name, word) for word in words)]
    if "^" in found:
        return [it for it in facts.rdma if it not in hit], []
    return hit, [word for word in words if not any(fits(it.name, word) for it in facts.rdma)]


def twins(device: Rdma, facts: NodeFacts) -> list[Rdma]:
    """The other devices of the same port: of a ConnectX-7 in a GB10 each port is two PCIe devices in different domains
    with the same number (0000:01:00.1 and 0002:01:00.1)."""
    if device.slot is None or ":" not in device.slot:
        return []
    rest = device.slot.partition(":")[2]
    return [
        it
        for it in facts.rdma
        if it.name != device.name
        and it.slot is not None
        and it.slot.partition(":")[2] == rest
        # Two cards in slots of the same number are no twins; a GB10 has only the one.
        and (facts.unified or it.card == device.card)
    ]


def _fabric(site: Site) -> Iterator[tuple[RankPlan, Machine, Node]]:
    for rank, machine, node in site.nodes():
        if len(site.plan.ranks) > 1 and node is not None and node.fabric is not None:
            yield rank, machine, node


def _holder(facts: NodeFacts, node: Node) -> Interface | None:
    return next((it for it in facts.interfaces if node.fabric in it.addresses), None)


def of_interface(facts: NodeFacts, interface: str | None) -> list[Rdma]:
    """The devices of an interface with their twins, by name."""
    own = [it for it in facts.rdma if interface in it.netdevs]
    every = {it.name: it for one in own for it in (one, *twins(one, facts))}
    return sorted(every.values(), key=lambda it: it.name.lower())


def _written(rank: RankPlan) -> str | None:
    """The devices that NCCL is told to use on a node: `hca` of the cluster file, or the variable itself."""
    return rank.env.get("NCCL_IB_HCA")


def _wants_rdma(rank: RankPlan) -> bool:
    return rank.container is not None and "/dev/infiniband" in rank.container.devices


def _v4(address: str) -> bool:
    return ipaddress.ip_address(address).__class__ is ipaddress.IPv6Address and (
        ipaddress.IPv6Address(address).ipv4_mapped is not None
    )


def _give(node: Node) -> str:
    name = node.interface or "INTERFACE"
    return f"`sudo ip addr add {node.fabric}/24 dev {name}` there (and in its netplan file), or correct `fabric`"


def _bad(site: Site, rank: RankPlan, check: str, message: str, hint: str, key: str) -> Found:
    return Found(check, rank.name, Verdict.FAIL, message, hint, site.where(rank.name, key))
