"""The job of a group for Slurm: a script for sbatch, with containers (enroot, pyxis) or on an environment. Pure."""

import re
import shlex
from collections.abc import Sequence
from urllib.parse import urlsplit

from launch.engines.template import render
from launch.engines.words import shell
from launch.plan import allocated
from launch.plan.allocated import Common, Given
from launch.plan.container import HOME, Container
from launch.plan.group import GroupPlan
from launch.plan.ranks import concrete, flag
from recipe.config.check import Checked
from recipe.errors import ConfigError, Problem
from recipe.image.reference import remote

# What a rank sees of its user, as with the process engine; everything else is in the plan.
_OF_USER = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ")
_VARIABLES = {Given.RANK: '"$SLURM_PROCID"', Given.HEAD: '"$head"'}


def name(plan: GroupPlan) -> str:
    """The file's name."""
    return f"{plan.cluster}.sbatch"


def text(plan: GroupPlan, checked: Checked, judge: Sequence[str]) -> str:
    """The script. `judge`: the command that waits for the group and runs gates, as launch.cli.in_job takes it.

    Submitted by hand the job judges itself; with a folder for its logs as argument, whoever gave that does.
    Errors: ConfigError for what the containers of Slurm cannot do; HallmarkError when nodes differ.
    """
    common = allocated.common(plan)
    value = checked.cluster.value.slurm
    box = common.container
    asked = {"partition": value.partition, "account": value.account, "time": value.time}
    cuda = checked.hardware.value.device == "cuda"
    if cuda and checked.profile.value.container.gpus:
        asked["gpus-per-node"] = str(checked.profile.value.gpus)
    variables = [f"{key}={shell(text, home=key in common.homes)}" for key, text in common.env.items()]
    if common.several:
        variables.append(f'{allocated.ADDRESS}="${{addresses[SLURM_PROCID]}}"')
    secrets = {key: reference.partition(":") for key, reference in common.secrets.items()}
    needed = sorted({source for kind, _, source in secrets.values() if kind == "env"})
    writable = [mount.source for mount in box.mounts if not mount.read_only] if box else []
    return render(
        "group.sbatch.j2",
        plan=plan,
        job=f"hallmark-{plan.cluster}",
        nodes=len(plan.ranks),
        options={key: text for key, text in asked.items() if text is not None},
        export=",".join(["PATH", *_OF_USER, *needed]),
        kept=" ".join([*_OF_USER, *secrets]),
        argv=_argv(common),
        worker=shlex.join(common.worker),
        variables=variables,
        secrets=[f"{key}={_secret(kind, source)}" for key, (kind, _, source) in secrets.items()],
        key=shlex.quote(common.env.get("VLLM_API_KEY", "")),
        bare=box is None,
        home=HOME,
        container=_pyxis(box, checked, list(secrets)) if box else [],
        folders=" ".join(shell(folder, home=True) for folder in writable),
        judge=_judge(plan, judge, allocated.ready_seconds(common)),
        url=_url(plan),
    )


def _argv(common: Common) -> list[str]:
    """The arguments in lines that belong together."""
    lines: list[list[str]] = []
    for place, word in enumerate(common.argv):
        if not lines or (isinstance(word, str) and word.startswith("-")):
            lines.append([])
        lines[-1].append(_VARIABLES[word] if isinstance(word, Given) else shell(word, home=place in common.homes))
    return [" ".join(line) for line in lines]


def _judge(plan: GroupPlan, judge: Sequence[str], seconds: float) -> str:
    words = [*judge, "--model", plan.model_name, "--seconds", f"{seconds:g}"]
    words += [word for rank in plan.ranks for word in ("--node", rank.name)]
    words += [word for gate in plan.gates.trial for word in ("--gate", gate)]
    words += ["--patchset", plan.subject.patchset] if plan.subject.patchset else []
    return shlex.join(words)


def _url(plan: GroupPlan) -> str:
    host = flag(plan.ranks[0].argv, "--host")
    return shlex.quote(plan.api_url) if concrete(host) else f'"http://$head:{urlsplit(plan.api_url).port}"'


def _secret(kind: str, source: str) -> str:
    if kind == "env":
        return f'"${{{source}:?it was not set where the job was submitted}}"'
    return f'"$(<{shell(source, home=True)})"'


def _pyxis(box: Container, checked: Checked, secrets: Sequence[str]) -> list[str]:
    """The options of srun, each a word of the shell."""
    image = remote(box.image)
    found = []
    if image is None or ":" not in str(image.name):
        where = checked.cluster.document.where(("engine",))
        hint = "name HOST/PATH@sha256:… with --image, or name a `registry` and push the profile's image there"
        found.append(Problem(f"{box.image} is no image by its digest in a registry", where, hint))
    for mount in box.mounts:
        if re.search(r"[,:]", mount.source + mount.target):
            where = checked.cluster.document.where(("paths",))
            found.append(Problem(f"{mount.source}: srun separates mounts by `,` and `:`", where, "rename that folder"))
    if found:
        raise ConfigError(found)
    assert image is not None
    mounts = ",".join(
        f"{shell(it.source, home=True)}:{shlex.quote(it.target)}{':ro' * it.read_only}" for it in box.mounts
    )
    return [
        # enroot 3 does not read a tag before the digest.
        f"--container-image={shlex.quote(f'{image.host}#{image.path}@{image.name}')}",
        f"--container-mounts={mounts}",
        # The user's home would hide the image's own folders, and caches are below that of root.
        "--no-container-mount-home",
        "--container-remap-root",
        "--container-writable",
        *([f"--container-env={','.join(secrets)}"] if secrets else []),
    ]
