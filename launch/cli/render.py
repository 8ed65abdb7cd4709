"""The command `render`: exactly what each node of a cluster would run."""

import hashlib
from dataclasses import replace
from pathlib import Path

import click

from launch.cli import shell
from launch.cli.context import Context
from launch.cli.given import Given
from launch.ledger.pinned import pinned
from launch.ledger.subject import named, planned
from launch.nodes.environment import build, describe
from launch.nodes.records import write
from launch.plan.group import GroupPlan
from recipe.catalogue.compile import compile_profile
from recipe.config.check import Checked, check_cluster
from recipe.config.cluster_rules import cluster_rules
from recipe.errors import ConfigError, HallmarkError, Problem, Refused

_MARK = "# written by hallmark render, sha256 of all lines above: "


@click.command()
@click.argument("cluster")
@click.option("--profile", metavar="P", help="another profile than the cluster's own")
@click.option("--image", metavar="REF", help="an image (default: the one that `hallmark image` would name)")
@click.option(
    "--engine",
    type=click.Choice(["docker", "process", "compose", "systemd", "slurm", "lws"]),
    help="another engine than the cluster's own",
)
@click.option("--out", type=Given(), metavar="DIR", help="write the files into DIR")
@click.option("--stage", is_flag=True, help="make the patched environment that the files name, when it is not there")
@click.pass_obj
def render(
    context: Context,
    cluster: str,
    profile: str | None,
    image: str | None,
    engine: str | None,
    out: Path | None,
    stage: bool,
) -> None:
    """Print each node's command with environment, mounts, devices and labels, or the files of the engine.

    Changes nothing but DIR, and with --stage the environment; may be repeated. A file in DIR that was edited since it
    was written, or that is not of this command, is not overwritten.
    """
    checked = check_cluster(context.home, cluster, profile)
    for finding in checked.findings:
        context.say(f"{finding.severity}: {finding}")
    plan = _plan(context, checked, engine, image)
    if stage:
        _stage(checked, plan)
    if out is not None:
        for path in _write(plan, out):
            context.say(f"wrote {path}")
    if plan.subject.kind == "env" and not Path(str(plan.subject.venv)).is_dir():
        context.say(f"note: {plan.subject.venv} is not installed, so PYTHONPATH lacks the end of its folder's name")
    context.emit(plan.to_json(), lambda: shell.text(plan, str(Path.home())))


def _plan(context: Context, checked: Checked, engine: str | None, image: str | None) -> GroupPlan:
    cluster = checked.cluster
    wanted = engine or cluster.value.engine
    if wanted != cluster.value.engine:
        cluster = replace(cluster, value=cluster.value.model_copy(update={"engine": wanted}))
        unfit = [it.problem for it in cluster_rules(cluster) if it.severity == "error"]
        if unfit:
            raise ConfigError(unfit)
        checked = replace(checked, cluster=cluster)
    subject, certificate = named(checked.profile, cluster, image), None
    if cluster.value.allocated and subject.kind == "image":
        subject, certificate = pinned(checked, subject, context.say)
    return planned(checked, subject, context.home, certificate)


def _stage(checked: Checked, plan: GroupPlan) -> None:
    if plan.subject.kind != "env":
        hint = "an image is built by `hallmark image`, and nodes fetch it themselves"
        raise HallmarkError(f"the {plan.engine} engine runs an image", where="--stage", hint=hint)
    build(describe(Path(str(plan.subject.venv)), compile_profile(checked.profile)))


def _write(plan: GroupPlan, folder: Path) -> list[Path]:
    written = []
    path = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = {folder / name: _signed(text) for name, text in _files(plan).items()}
        edited = [path for path in files if not _replaceable(path)]
        if edited:
            raise _kept(edited)
        for path, content in files.items():
            # A link that is there is replaced, and what it names stays.
            write(path, content)
            if content.startswith(b"#!"):
                path.chmod(0o755)
            written.append(path)
    except OSError as error:
        raise HallmarkError(
            f"cannot be written: {error.strerror}", where=str(path), hint="name another folder"
        ) from None
    return written


def _signed(text: str) -> bytes:
    """The file with a last line by which it is known as unchanged; it is a comment in every format that is written."""
    content = text.encode() if text.endswith("\n") else f"{text}\n".encode()
    return content + f"{_MARK}{hashlib.sha256(content).hexdigest()}\n".encode()


def _replaceable(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return True
    content, mark, digest = path.read_bytes().rpartition(_MARK.encode())
    return bool(mark) and digest.decode(errors="replace").strip() == hashlib.sha256(content).hexdigest()


def _kept(edited: list[Path]) -> Refused:
    error = Refused("is not overwritten")
    why = "was edited since it was written, or is not of this command"
    hint = "move it away, or name another folder; nothing was written"
    error.problems = tuple(Problem(why, str(path), hint) for path in edited)
    return error


def _files(plan: GroupPlan) -> dict[str, str]:
    """The engine's files; a script for each node of an engine that has none."""
    home = str(Path.home())
    made = {name: text for rank in plan.ranks for name, text in rank.files.items()}
    return made or {f"{rank.rank}-{rank.name}.sh": shell.script(rank, home) for rank in plan.ranks}
