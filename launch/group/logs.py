"""The logs of a group's ranks, brought here and read."""

from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from launch.engines.base import Engine
from launch.plan.group import GroupPlan
from launch.plan.logs import RankLog


def collected(engine: Engine, plan: GroupPlan, group: str, logs: Path) -> list[RankLog]:
    """What every rank wrote since its start; of a node that is not reached what was seen last."""
    return read(plan, logs, engine.collect(plan, group, logs))


def read(plan: GroupPlan, logs: Path, current: Collection[str] | None = None) -> list[RankLog]:
    """What was collected last. `current`: the ranks whose file is of this start; None where nobody asked."""
    found = []
    for rank in plan.ranks:
        path, times = (logs / f"{rank.name}.{ending}" for ending in ("log", "times"))
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        # As vLLM writes it: local time.
        ended = f"{datetime.fromtimestamp(path.stat().st_mtime):%m-%dT%H:%M:%S}" if text else ""
        listed = tuple(times.read_text(encoding="utf-8").split()) if times.is_file() else ()
        found.append(RankLog(rank.name, rank.rank, text, current is None or rank.name in current, listed, ended))
    return found
