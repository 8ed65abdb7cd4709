"""How far each rank of a group came with its start, read from the logs. Pure.

A node's log has the lines of all ranks that run there; lines that name a rank (of the tensor-parallel group or of NCCL)
count for that one. Of NCCL only what it writes itself with NCCL_DEBUG=INFO tells ranks of a node apart while they meet.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from launch.plan.logs import RankLog, plain

# In the order in which a rank passes them. Of vLLM: parallel_state.py, pynccl.py, default_loader.py and
# gpu_model_runner.py; the last is uvicorn's, and only the head writes it. Gloo's and NCCL's are their own.
_STAGES: tuple[tuple[str, str], ...] = (
    ("joins the store", r"distributed_init_method="),
    ("gloo connected", r"\[Gloo\] Rank \d+ is connected to [1-9]"),
    ("NCCL init begun", r"vLLM is using nccl==|ncclCommInitRank\w* .*Init START|Bootstrap: Using"),
    ("ranks connected", r"Init COMPLETE|is assigned as DP rank"),
    ("weights loaded", r"Loading weights took|Model loading took"),
    ("graphs captured", r"Graph capturing finished"),
    ("serving", r"Application startup complete"),
)
NAMES = ("started", *(name for name, _ in _STAGES))
_EXPRESSIONS = tuple(re.compile(pattern) for _, pattern in _STAGES)
_RANK = re.compile(r"\brank (\d+) nranks \d+|\bworld_size=\d+ rank=(\d+)|\brank (\d+) in world size \d+")
_WORKER = re.compile(r"\(Worker_TP(\d+)\b[^)]*pid=\d+\)")


@dataclass(frozen=True)
class Stages:
    """`nodes`: by node the last stage of NAMES that it reached, None when it wrote nothing; `ranks`: by rank likewise,
    where lines name ranks."""

    nodes: dict[str, str | None]
    ranks: dict[int, str]

    @property
    def silent(self) -> list[str]:
        """Nodes of which there is no line at all: they never joined."""
        return [node for node, stage in self.nodes.items() if stage is None]

    @property
    def stuck(self) -> list[int]:
        """The ranks that are behind others; none while all are equally far."""
        furthest = max((NAMES.index(stage) for stage in self.ranks.values()), default=0)
        return sorted(rank for rank, stage in self.ranks.items() if NAMES.index(stage) < furthest)

    def lines(self) -> list[str]:
        """For people: a line for each node, and one for the ranks that are behind."""
        told = [f"{node}: {stage or 'never joined: it wrote nothing'}" for node, stage in self.nodes.items()]
        if self.stuck:
            where = ", ".join(f"{rank} ({self.ranks[rank]})" for rank in self.stuck)
            told.append(f"ranks behind the others: {where}")
        return told


def stages(logs: Sequence[RankLog]) -> Stages:
    """Read all logs of a group."""
    nodes: dict[str, str | None] = {}
    ranks: dict[int, str] = {}
    for log in logs:
        nodes[log.node] = _read(log, ranks)
    # The last stage is the server's and not of a rank: a headless one has none.
    return Stages(nodes, ranks)


def _read(log: RankLog, ranks: dict[int, str]) -> str | None:
    furthest = None
    for raw in log.text.splitlines():
        line = plain(raw)
        if not line:
            continue
        stage = next((at + 1 for at in reversed(range(len(_STAGES))) if _EXPRESSIONS[at].search(line)), 0)
        furthest = max(furthest or 0, stage)
        named = _WORKER.search(raw) or _RANK.search(line)
        if named:
            rank = int(next(group for group in named.groups() if group is not None))
            ranks[rank] = NAMES[max(stage, NAMES.index(ranks.get(rank, NAMES[0])))]
    return None if furthest is None else NAMES[furthest]
