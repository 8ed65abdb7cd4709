"""What a cluster's GPUs would hold: plans the group, asks its vLLM on the head, and reads what a running one logged."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from launch.ledger.judge import rank_logs
from launch.ledger.subject import found
from launch.ledger.work import Work, work
from launch.nodes import reach, sizes
from launch.nodes.facts import folder_of
from launch.nodes.image import StagedImage
from launch.nodes.look import look
from launch.nodes.node import NodeFacts
from launch.plan.group import GroupPlan, at_home, plan_group
from launch.plan.sizes import Fit, Measured, fit, measured, request
from recipe.config.check import Checked, check_cluster
from recipe.errors import Refused


def of_cluster(
    home: Path,
    name: str,
    profile: str | None,
    image: str | None,
    available: int | None,
    stage: bool,
    say: Callable[[str], None],
) -> Fit:
    """The sizes of the group that `launch` would start. Errors: ConfigError; Refused; Unreachable."""
    checked = check_cluster(home, name, profile)
    for finding in checked.findings:
        say(f"{finding.severity}: {finding}")
    opened = work(home, name, say)
    looked = found(checked, image)
    subject, staging = looked.subject, looked.staging
    plan = plan_group(checked.profile, checked.cluster, subject)
    head = at_home(plan.ranks[0], reach.home(plan.ranks[0].place))
    seen = look(head.place, model=str(folder_of(head) or ""))
    _model_is_there(seen, head.name, name)
    if isinstance(staging, StagedImage):
        _to_head(replace(staging, places=(head.place,)), stage, say)
    logged = _logged(opened, plan)
    known = available if available is not None else logged.available
    asked = request(checked.profile.value, checked.hardware.value, head, known, _memory(checked, seen))
    say(f"asking the vLLM of {subject.reference} on {head.name}")
    answer = sizes.ask(head, asked)
    if answer["source"] == "given" and available is None:
        answer["source"] = "log"
    return fit(answer, checked.cluster.value, logged)


def _model_is_there(seen: NodeFacts, node: str, cluster: str) -> None:
    """Refused without the model's configuration, which an engine would only tell as a mount that it cannot make."""
    if seen.model is None or "config.json" in {*seen.model.outside, *(file.path for file in seen.model.files)}:
        return
    raise Refused(
        f"the model folder {seen.model.folder} has no config.json",
        where=f"node {node}",
        hint=f"`hallmark model fetch {cluster}` fetches it, or change paths.models of the cluster",
    )


def _to_head(staging: StagedImage, stage: bool, say: Callable[[str], None]) -> None:
    """The image is asked on the head. Errors: Refused when it is not there and is not to be brought."""
    if not staging.lacking():
        return
    if not stage:
        name = staging.places[0].name
        hint = "--stage brings it there, as launch would"
        raise Refused(f"node {name} does not have {staging.reference} yet, and fit asks the image there", hint=hint)
    staging.stage(say)


def _logged(work: Work, plan: GroupPlan) -> Measured:
    """What the running group logged, when it runs just this."""
    _, past = work.look()
    if past.running is None:
        return Measured(None, None)
    generation = work.generation(past.running)
    if [rank.argv for rank in generation.plan.ranks] != [rank.argv for rank in plan.ranks]:
        return Measured(None, None)
    return measured(log.text for log in rank_logs(work.engine, generation))


def _memory(checked: Checked, seen: NodeFacts) -> int | None:
    """Bytes of one of the head's GPUs; of the machine where GPUs share its memory."""
    if checked.hardware.value.device != "cuda" or not seen.gpus:
        return None
    return min((gpu.total for gpu in seen.gpus if gpu.total is not None), default=seen.memory_total or None)
