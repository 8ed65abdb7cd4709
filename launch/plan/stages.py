"""How far each rank of a group came with its start, read from the logs. Pure.

A node's log has the lines of all ranks that run there; lines that name a rank (of the tensor-parallel group or of NCCL)
count for that one. Of NCCL only what it writes itself with NCCL_DEBUG=INFO tells ranks of a node apart while they meet.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

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
# From here on a rank waits for others.
JOINED = NAMES.index("joins the store") + 1
_EXPRESSIONS = tuple(re.compile(pattern) for _, pattern in _STAGES)
# By stage what a rank does until the next one, and where to look when it stays there.
_UNTIL = {
    "started": (
        "it reads its configuration and has not come to the others yet",
        "the last line of its log says where it is",
    ),
    "joins the store": (
        "it waits until every rank has reached the head's master port",
        "`hallmark preflight` tries that port over the fabric; a rank that is further behind is the one to look at",
    ),
    "gloo connected": ("it waits for a rank that is behind", "look at that one"),
    "NCCL init begun": (
        "NCCL waits until all ranks reach each other over the interface it chose",
        "compare `interface` and `hca` of the cluster file with what NCCL_DEBUG: INFO of the profile's env tells",
    ),
    "ranks connected": ("it reads the weights", "see the disk or the network that they come from"),
    "weights loaded": ("it compiles kernels and captures graphs", "a second start finds them compiled"),
}
# What vLLM writes when a start has failed for good, before it ends: core.py, multiproc_executor.py and core_client.py.
_FAILED = re.compile(r"EngineCore failed to start|WorkerProc failed to start|Engine core initialization failed")
_NCCL = re.compile(r"NCCL INFO Bootstrap: Using (\S+?):\[?([0-9a-fA-F.:]+?)(?:%\w+)?\]?<\d+>")
_RANK = re.compile(r"\brank (\d+) nranks \d+|\bworld_size=\d+ rank=(\d+)|\brank (\d+) in world size \d+")
_WORKER = re.compile(r"\(Worker_TP(\d+)\b[^)]*pid=\d+\)")


@dataclass(frozen=True)
class Stages:
    """`nodes`: by node whose log was had the last stage of NAMES that it reached, None when it wrote nothing; `ranks`:
    by rank likewise, where lines name ranks; `failed`: by node the line that says that its start has failed for good;
    `nccl`: by node the interface and the address that NCCL itself says it meets the others at."""

    nodes: dict[str, str | None]
    ranks: dict[int, str]
    failed: dict[str, str] = field(default_factory=dict)
    nccl: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def silent(self) -> list[str]:
        """Nodes of which there is no line at all: they never joined."""
        return [node for node, stage in self.nodes.items() if stage is None]

    @property
    def stuck(self) -> list[int]:
        """The ranks that are behind others; none while all are equally far."""
        furthest = max((NAMES.index(stage) for stage in self.ranks.values()), default=0)
        return sorted(rank for rank, stage in self.ranks.items() if NAMES.index(stage) < furthest)

    @property
    def behind(self) -> list[str]:
        """The nodes that are furthest behind; all of them when all are equally far."""
        least = min(map(reached, self.nodes.values()), default=0)
        return [node for node, stage in self.nodes.items() if reached(stage) == least]

    def lines(self) -> list[str]:
        """For people: a line for each node, and one for the ranks that are behind."""
        told = [f"{node}: {stage or 'never joined: it wrote nothing'}" for node, stage in self.nodes.items()]
        if self.stuck:
            where = ", ".join(f"{rank} ({self.ranks[rank]})" for rank in self.stuck)
            told.append(f"ranks behind the others: {where}")
        return told


def reached(stage: str | None) -> int:
    """How far a stage is: 0 for none, larger for later ones."""
    return 0 if stage is None else NAMES.index(stage) + 1


def until(stage: str | None) -> tuple[str, str] | None:
    """What a rank does until the next stage, and where to look when it stays in this one."""
    return _UNTIL.get(stage or NAMES[0])


def stages(logs: Sequence[RankLog]) -> Stages:
    """Read all logs of a group that are of this start; of a node whose log was not had nothing is known."""
    found = Stages({}, {})
    for log in logs:
        if log.current:
            found.nodes[log.node] = _read(log, found)
    # The last stage is the server's and not of a rank: a headless one has none.
    return found


def _read(log: RankLog, found: Stages) -> str | None:
    furthest, ranks = None, found.ranks
    for raw in log.text.splitlines():
        line = plain(raw)
        if not line:
            continue
        stage = next((at + 1 for at in reversed(range(len(_STAGES))) if _EXPRESSIONS[at].search(line)), 0)
        furthest = max(furthest or 0, stage)
        if _FAILED.search(line):
            found.failed.setdefault(log.node, line.strip())
        if chosen := _NCCL.search(line):
            found.nccl[log.node] = chosen[1], chosen[2]
        named = _WORKER.search(raw) or _RANK.search(line)
        if named:
            rank = int(next(group for group in named.groups() if group is not None))
            ranks[rank] = NAMES[max(stage, NAMES.index(ranks.get(rank, NAMES[0])))]
    return None if furthest is None else NAMES[furthest]
