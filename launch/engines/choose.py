"""The engine that a cluster names."""

from launch.engines.base import Engine
from launch.engines.containers import DockerEngine, Reach
from launch.engines.process import ProcessEngine
from launch.plan.place import Place
from recipe.config.load import Loaded
from recipe.config.models import Cluster
from recipe.errors import Refused


def choose(cluster: Loaded[Cluster], reach: Reach) -> Engine:
    """Errors: Refused for an engine that this version only renders."""
    if cluster.value.engine == "process":
        return ProcessEngine()
    if cluster.value.engine == "docker":
        return DockerEngine([Place(node.name, node.address, node.docker_host) for node in cluster.value.nodes], reach)
    raise Refused(
        f"the {cluster.value.engine} engine is rendered but not launched by this version",
        where=cluster.document.where(("engine",)),
        hint=f"run what `hallmark render {cluster.name}` prints on each node",
    )
