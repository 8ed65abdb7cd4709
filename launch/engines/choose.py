"""The engine that a cluster names."""

from launch.engines.base import Engine
from launch.engines.process import ProcessEngine
from recipe.config.load import Loaded
from recipe.config.models import Cluster
from recipe.errors import Refused


def choose(cluster: Loaded[Cluster]) -> Engine:
    """Errors: Refused for an engine that this version only renders."""
    if cluster.value.engine == "process":
        return ProcessEngine()
    raise Refused(
        f"the {cluster.value.engine} engine is rendered but not launched by this version",
        where=cluster.document.where(("engine",)),
        hint=f"run what `hallmark render {cluster.name}` prints on each node",
    )
