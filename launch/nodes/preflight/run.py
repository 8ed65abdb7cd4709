"""Looks at all nodes at the same time, and gives what every check says of them."""

from collections.abc import Callable, Iterator, Mapping

from launch.nodes import reach
from launch.nodes.facts import folder_of
from launch.nodes.look import look
from launch.nodes.node import NodeFacts
from launch.nodes.preflight import files, machine, memory, network, ports
from launch.nodes.preflight.meeting import master_port
from launch.nodes.preflight.site import Found, Machine, Old, Site, Verdict, plan_ports
from launch.plan.group import GroupPlan, RankPlan
from recipe.config.load import Loaded
from recipe.config.models import Cluster, Hardware

_CHECKS: tuple[Callable[[Site], Iterator[Found]], ...] = (
    machine.engine,
    machine.gpus,
    machine.drivers,
    machine.names,
    files.models,
    files.same_model,
    files.variables,
    ports.ports,
    memory.host,
    memory.gpu,
    memory.shared,
    network.interfaces,
    network.routes,
    network.mtu,
    network.speed,
    network.devices,
    network.gids,
    network.permissions,
    machine.clock,
    machine.disk,
)


def survey(
    plan: GroupPlan,
    hardware: Loaded[Hardware],
    cluster: Loaded[Cluster],
    owner: str = "",
    old: Old | None = None,
    lacking: Mapping[str, int | None] | None = None,
    image_env: dict[str, str] | None = None,
) -> Site:
    """Look at every node of a plan once. Errors: Unreachable when one does not answer."""
    fabric = {node.name: node.fabric for node in cluster.value.nodes if node.fabric is not None}
    groups: dict[tuple[str, str | None], list[RankPlan]] = {}
    for rank in plan.ranks:
        groups.setdefault((rank.address, rank.docker_host), []).append(rank)

    def ask(ranks: list[RankPlan]) -> NodeFacts:
        first = ranks[0]
        names = {rank.name for rank in ranks}
        model = folder_of(first)
        caches = [mount.source for mount in first.container.mounts if not mount.read_only] if first.container else []
        return look(
            first.place,
            engine=plan.engine,
            image=plan.subject.image if plan.subject.kind == "image" else "",
            model=str(model) if model is not None else "",
            peers=[address for name, address in fabric.items() if name not in names],
            ports=list(plan_ports(plan).values()),
            memory=memory.wanted(hardware.value, ranks),
            folders=[cluster.value.paths.state, *caches[:1]] if first.address != "local" else caches[:1],
        )

    found = reach.each(ask, groups.values())
    machines = tuple(
        Machine(ranks[0].name, facts, tuple(ranks)) for ranks, facts in zip(groups.values(), found, strict=True)
    )
    return Site(plan, hardware, cluster, machines, owner, old, lacking or {}, image_env)


def checks(site: Site) -> list[Found]:
    """What all checks say that need nothing but facts. Pure."""
    kinds = list(machine.architecture(site))
    # On another kind of machine everything else would only be noise.
    if any(found.verdict is Verdict.FAIL for found in kinds):
        return kinds
    return kinds + [found for check in _CHECKS for found in check(site)]


def everything(site: Site) -> list[Found]:
    """As `checks`, and whether the nodes reach each other, which is tried. Errors: Unreachable."""
    found = checks(site)
    if any(it.verdict is Verdict.FAIL for it in found):
        return found
    return found + ([] if site.serves else master_port(site))
