"""Whether a job can be submitted, looked at before anything is touched. The machines are only known once it runs."""

from collections.abc import Callable
from pathlib import Path

from launch.nodes.facts import model_folder
from launch.nodes.preflight.local import program
from launch.plan.group import GroupPlan
from recipe.config.load import Loaded
from recipe.config.models import Cluster
from recipe.errors import Problem


def problems(plan: GroupPlan, cluster: Loaded[Cluster], refusal: Callable[[GroupPlan], str | None]) -> list[Problem]:
    """Everything that stands in the way. `refusal` asks Slurm, without submitting anything.

    What the ranks use is looked for here, because it must lie where all machines see it.
    """
    found = [*(it.problem for it in program(plan)), *_model(plan, cluster)]
    for index, node in enumerate(cluster.value.nodes):
        if not node.local:
            where = cluster.document.where(("nodes", index, "address"))
            hint = "write `address: local`: Slurm's programs are run here, and Slurm chooses the machines"
            found.append(Problem(f"{node.address} is not asked by the slurm engine", where, hint))
    if not found and (why := refusal(plan)) is not None:
        where = cluster.document.where(("engine",))
        hint = "change `slurm` of the cluster file, or see what `sinfo` says"
        found.append(Problem(f"Slurm would not take the job: {why}", where, hint))
    return found


def _model(plan: GroupPlan, cluster: Loaded[Cluster]) -> list[Problem]:
    folder = model_folder(plan.ranks[0])
    if folder is None or (Path(folder) / "config.json").is_file():
        return []
    where = cluster.document.where(("paths", "models"))
    hint = "put the model where all machines see it, or change paths.models of the cluster"
    return [Problem(f"the model folder {folder} has no config.json", where, hint)]
