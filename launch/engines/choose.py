"""The engine that a cluster names."""

from collections.abc import Callable

from launch.engines.base import Engine
from launch.engines.containers import DockerEngine, Reach
from launch.engines.jobs import SlurmEngine
from launch.engines.process import ProcessEngine
from launch.plan.place import Place
from recipe.config.load import Loaded
from recipe.config.models import Cluster
from recipe.errors import Refused


def choose(cluster: Loaded[Cluster], reach: Reach, say: Callable[[str], None]) -> Engine:
    """Errors: Refused for an engine that this version only renders."""
    if cluster.value.engine == "process":
        return ProcessEngine()
    if cluster.value.engine == "docker":
        places = [Place(node.name, node.address, node.docker_host) for node in cluster.value.nodes]
        return DockerEngine(places, reach, say)
    if cluster.value.engine == "slurm":
        return SlurmEngine(reach, say)
    raise Refused(
        f"the {cluster.value.engine} engine is rendered but not launched by this version",
        where=cluster.document.where(("engine",)),
        hint=f"use what `hallmark render {cluster.name} --out DIR` writes, as docs/engines.md says",
    )
