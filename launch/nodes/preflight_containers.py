"""Whether the nodes of a docker cluster can run a plan, looked at before anything is touched."""

import json
from collections.abc import Iterable

from launch.nodes import reach, resources
from launch.nodes.facts import model_folder
from launch.nodes.image import StagedImage
from launch.nodes.ports import listening
from launch.nodes.preflight import plan_ports
from launch.plan.group import GroupPlan, RankPlan
from launch.plan.place import Place
from recipe.config.load import Loaded
from recipe.config.models import Cluster, Hardware
from recipe.errors import Problem

# An image is unpacked beside the compressed layers that arrive.
_ROOM = 1.5


def problems(
    plan: GroupPlan, hardware: Loaded[Hardware], cluster: Loaded[Cluster], staging: StagedImage, ours: Iterable[int]
) -> list[Problem]:
    """Everything that stands in the way on any node; `ours` are ports that the group has that will be stopped first.

    Errors: Unreachable when a node or its engine does not answer.
    """
    places = list(dict.fromkeys(rank.place for rank in plan.ranks))
    wrong = [it for found in reach.each(lambda place: _architecture(place, hardware), places) for it in found]
    if wrong:
        return wrong
    ours = set(ours)
    checks = [*reach.each(lambda rank: _model(rank, cluster), plan.ranks), _ports(plan, cluster, ours)]
    checks += reach.each(lambda place: _resources(place, plan, hardware, serves=bool(ours)), places)
    lacking = staging.lacking()
    if lacking and (size := staging.size()):
        checks += reach.each(lambda place: _disk(place, size), lacking)
    return [problem for found in checks for problem in found]


def _architecture(place: Place, hardware: Loaded[Hardware]) -> list[Problem]:
    server = json.loads(reach.docker(place, "version", "--format", "{{json .Server}}"))
    if (server["Os"], server["Arch"]) == ("linux", hardware.value.architecture):
        return []
    message = f"node {place.name} is {server['Os']}/{server['Arch']}, {hardware.name} is {hardware.value.architecture}"
    where = hardware.document.where(("architecture",))
    return [Problem(message, where, "choose a profile for that machine, or correct the node's address")]


def _model(rank: RankPlan, cluster: Loaded[Cluster]) -> list[Problem]:
    folder = model_folder(rank)
    if folder is None:
        # Only what somebody started by hand; whether it can be fetched is between vLLM and its source.
        return []
    if reach.run(rank.place, ("test", "-f", f"{folder}/config.json")).returncode == 0:
        return []
    where = cluster.document.where(("paths", "models"))
    hint = "put the model there on every node, or change paths.models of the cluster"
    return [Problem(f"node {rank.name}: the model folder {folder} has no config.json", where, hint)]


def _ports(plan: GroupPlan, cluster: Loaded[Cluster], ours: set[int]) -> list[Problem]:
    head = plan.ranks[0].place
    # Without IPv6 there is no second table.
    taken = listening(reach.run(head, ("cat", "/proc/net/tcp", "/proc/net/tcp6")).stdout) - ours
    return [
        Problem(
            f"node {head.name}: port {port} is taken",
            cluster.document.where(("ports", key)),
            f"`ss -ltnp 'sport = {port}'` there says by whom; end that or choose another port",
        )
        for key, port in plan_ports(plan).items()
        if port in taken
    ]


def _resources(place: Place, plan: GroupPlan, hardware: Loaded[Hardware], *, serves: bool) -> list[Problem]:
    ranks = [rank for rank in plan.ranks if rank.place == place]
    return list(resources.short(place.name, ranks, hardware, resources.resources(place), serves=serves))


def _disk(place: Place, size: int) -> list[Problem]:
    root = reach.docker(place, "info", "--format", "{{.DockerRootDir}}").strip()
    done = reach.run(place, ("df", "-Pk", root))
    if done.returncode:
        return []
    free = int(done.stdout.splitlines()[-1].split()[3]) * 1024
    if free >= size * _ROOM:
        return []
    message = f"node {place.name}: {root} has {free / 2**30:.1f} GiB free, the image needs {size * _ROOM / 2**30:.1f}"
    return [Problem(message, None, "`docker system df` there shows what fills it")]
