"""The command `render`: exactly what each node of a cluster would run."""

from dataclasses import replace
from pathlib import Path

import click

from launch.cli import shell
from launch.cli.context import Context
from launch.ledger.subject import named
from launch.plan.group import GroupPlan, plan_group
from recipe.config.check import Checked, check_cluster
from recipe.config.cluster_rules import engine as engine_rules
from recipe.errors import ConfigError, HallmarkError, Refused


@click.command()
@click.argument("cluster")
@click.option("--profile", metavar="P", help="another profile than the cluster's own")
@click.option("--image", metavar="REF", help="an image (default: the one that `hallmark image` would name)")
@click.option(
    "--engine",
    type=click.Choice(["docker", "process", "compose", "slurm", "lws"]),
    help="another engine than the cluster's own",
)
@click.option("--out", type=Path, metavar="DIR", help="write one file a node into DIR")
@click.pass_obj
def render(
    context: Context, cluster: str, profile: str | None, image: str | None, engine: str | None, out: Path | None
) -> None:
    """Print each node's command with environment, mounts, devices and labels.

    Changes nothing but DIR; may be repeated.
    """
    checked = check_cluster(context.home, cluster, profile)
    for finding in checked.findings:
        context.say(f"{finding.severity}: {finding}")
    plan = _plan(checked, engine, image)
    if out is not None:
        for path in _write(plan, out):
            context.say(f"wrote {path}")
    if plan.subject.kind == "env" and not Path(str(plan.subject.venv)).is_dir():
        context.say(f"note: {plan.subject.venv} is not installed, so PYTHONPATH lacks the end of its folder's name")
    context.emit(plan.to_json(), lambda: shell.text(plan, str(Path.home())))


def _plan(checked: Checked, engine: str | None, image: str | None) -> GroupPlan:
    cluster = checked.cluster
    wanted = engine or cluster.value.engine
    if wanted not in ("docker", "process"):
        where = cluster.document.where(("engine",)) if engine is None else "--engine"
        raise Refused(f"the engine {wanted} cannot be rendered yet", where=where, hint="choose docker or process")
    if wanted != cluster.value.engine:
        cluster = replace(cluster, value=cluster.value.model_copy(update={"engine": wanted}))
        unfit = [it.problem for it in engine_rules(cluster) if it.severity == "error"]
        if unfit:
            raise ConfigError(unfit)
    return plan_group(checked.profile, cluster, named(checked.profile, cluster, image))


def _write(plan: GroupPlan, folder: Path) -> list[Path]:
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for rank in plan.ranks:
            path = folder / f"{rank.rank}-{rank.name}.sh"
            path.write_text(shell.script(rank, str(Path.home())), encoding="utf-8")
            path.chmod(0o755)
            written.append(path)
    except OSError as error:
        raise HallmarkError(
            f"cannot be written: {error.strerror}", where=str(folder), hint="name another folder"
        ) from None
    return written
