"""A plan for machines that a scheduler chooses: what all ranks share, and what is only known where they run. Pure."""

import math
from dataclasses import dataclass, replace
from enum import Enum

from launch.plan.container import Container
from launch.plan.group import GroupPlan, RankPlan
from recipe.errors import HallmarkError

ADDRESS = "VLLM_HOST_IP"
_READY = "VLLM_ENGINE_READY_TIMEOUT_S"
# vLLM's own default for how long an engine may take to come up.
_READY_SECONDS = "600"


class Given(Enum):
    """An argument that the allocation gives."""

    RANK = "the rank's number"
    HEAD = "the address of the head's machine"


@dataclass(frozen=True)
class Common:
    """What every rank runs. `argv` are the head's arguments, `worker` what the others have behind them; `several`:
    whether there are others, so that each rank must know its own address (ADDRESS); `homes`: as of a rank."""

    argv: tuple[str | Given, ...]
    worker: tuple[str, ...]
    env: dict[str, str]
    secrets: dict[str, str]
    container: Container | None
    several: bool
    homes: tuple[int | str, ...]


def common(plan: GroupPlan) -> Common:
    """What the plan's ranks share. Errors: HallmarkError when nodes differ in more than rank and address."""
    head = plan.ranks[0]
    several = len(plan.ranks) > 1
    argv: list[str | Given] = list(head.argv)
    if several:
        # launch.plan.ranks.topology writes these last: --node-rank R --master-addr A --master-port P.
        argv[-5], argv[-3] = Given.RANK, Given.HEAD
    for rank in plan.ranks[1:]:
        if differing := sorted(name for name in {*head.env, *rank.env} if _own(head, rank, name)):
            raise HallmarkError(
                f"nodes {head.name} and {rank.name} differ in {', '.join(differing)}, but {plan.engine} chooses the "
                "machines",
                hint="give the nodes of the cluster file the same `interface`, `hca` and `env`",
            )
    env = {name: value for name, value in head.env.items() if not (several and name == ADDRESS)}
    return Common(tuple(argv), ("--headless",) if several else (), env, head.secrets, _any(head), several, head.homes)


def ready_seconds(common: Common) -> float:
    """How long the group may take until it answers. Errors: HallmarkError when the profile does not give a number."""
    text = common.env.get(_READY, _READY_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise HallmarkError(f"{_READY} is {text!r}, which is no number of seconds", hint="write one into the profile")
    return seconds


def _own(head: RankPlan, rank: RankPlan, name: str) -> bool:
    return name != ADDRESS and head.env.get(name) != rank.env.get(name)


def _any(head: RankPlan) -> Container | None:
    """The container without what tells ranks apart."""
    if head.container is None:
        return None
    labels = {name: value for name, value in head.container.labels.items() if not name.endswith(".rank")}
    return replace(head.container, labels=labels)
