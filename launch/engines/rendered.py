"""What engines that are not told rank by rank are given: files, made from the plan and kept in it. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from launch.engines import compose, lws, slurm, systemd
from launch.plan.group import GroupPlan
from recipe.config.check import Checked


def with_files(
    plan: GroupPlan, checked: Checked, judge: Sequence[str] = (), certificate: str | None = None
) -> GroupPlan:
    """The plan with the files of its engine, those of a whole group with the head.

    `judge`: the command that waits for a group and runs gates, for engines that do so themselves; `certificate`: the
    sha256 (hex) of the one about the image.
    Errors: HallmarkError for what the engine cannot do.
    """
    head, *others = plan.ranks
    match plan.engine:
        case "compose":
            ranks = [replace(rank, files={compose.name(rank): compose.text(rank)}) for rank in plan.ranks]
        case "systemd":
            ranks = [
                replace(rank, files={systemd.name(plan.cluster, rank): systemd.text(plan.cluster, rank)})
                for rank in plan.ranks
            ]
        case "slurm":
            ranks = [replace(head, files={slurm.name(plan): slurm.text(plan, checked, judge)}), *others]
        case "lws":
            ranks = [
                replace(head, files={f"{plan.cluster}.lws.yaml": lws.text(plan, checked, certificate)}),
                *others,
            ]
        case _:
            return plan
    return replace(plan, ranks=tuple(ranks))
