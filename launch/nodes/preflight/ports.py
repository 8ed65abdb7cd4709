"""Checks of the ports that the head opens: free, or ours; a stranger is named."""

from collections.abc import Iterator

from launch.nodes.node import Listener, NodeFacts
from launch.nodes.preflight.site import Found, Machine, Site, Verdict, passed, plan_ports


def ports(site: Site) -> Iterator[Found]:
    """The API's and the master port are free on the head, or held by the group that will be stopped first (D5)."""
    for machine in site.machines:
        if not machine.head:
            continue
        clean = True
        for key, port in plan_ports(site.plan).items():
            holders = [it for it in machine.facts.listeners if it.port == port]
            for holder in holders[:1]:
                found = _taken(site, machine, key, holder)
                if found is not None:
                    clean = False
                    yield found
        if clean:
            shown = " and ".join(str(port) for port in plan_ports(site.plan).values())
            yield passed("ports", machine.name, f"{shown} are free" if not site.serves else f"{shown} are the group's")


def _taken(site: Site, machine: Machine, key: str, holder: Listener) -> Found | None:
    facts, where = machine.facts, site.cluster.document.where(("ports", key))
    mark = _mark(facts, holder)
    if site.old is not None and (mark == site.old.mark or (site.serves and holder.port in site.old.ports)):
        return None
    who = _who(facts, holder)
    if mark is not None and site.owner and mark.startswith(f"{site.owner}/"):
        message = f"port {holder.port} is taken by {who}, left over from {mark.rpartition('/')[2]} of this cluster"
        hint = f"`hallmark stop {site.cluster.name}` ends it"
    elif mark is not None:
        message = f"port {holder.port} is taken by {who}, of another cluster of Hallmark ({mark})"
        hint = "stop that cluster, or choose another port"
    else:
        message = f"port {holder.port} is taken by {who}"
        hint = "end that process or choose another port"
        if holder.pid is None:
            hint = f"`sudo ss -ltnp 'sport = {holder.port}'` there says by whom; end that or choose another port"
    return Found("ports", machine.name, Verdict.FAIL, message, hint, where)


def _mark(facts: NodeFacts, holder: Listener) -> str | None:
    """Hallmark's mark of the process that listens, on itself or on its container."""
    process = facts.process(holder.pid)
    if process is None:
        return None
    box = facts.box(process.container)
    return process.mark or (box.group if box is not None else None)


def _who(facts: NodeFacts, holder: Listener) -> str:
    process = facts.process(holder.pid)
    if process is None:
        return "a process of another user" if holder.pid is None else f"process {holder.pid}"
    box = facts.box(process.container)
    inside = f" in container {box.name}" if box is not None else ""
    return f"process {process.pid} ({process.command}){inside}"
