"""How far each rank came, read from logs (D8)."""

from pathlib import Path

from launch.plan.logs import RankLog
from launch.plan.stages import stages

LOGS = Path(__file__).parents[2] / "cases" / "gates" / "logs"


def nccl(*complete: int) -> str:
    """The log of a node of eight ranks, of which these got through NCCL's init."""
    lines = ["(Worker pid=1) INFO 12-01 01:30:37 [pynccl.py:148] vLLM is using nccl==2.27.5"]
    for rank in range(8):
        comm = f"host:{100 + rank}:1 [{rank}] NCCL INFO ncclCommInitRank comm 0x1 rank {rank} nranks 8 cudaDev {rank}"
        lines.append(f"{comm} - Init START")
        lines += [f"{comm} - Init COMPLETE"] if rank in complete else []
    return "\n".join(lines)


def test_ranks_that_stay_behind_in_nccls_init_are_listed() -> None:
    """D8: even local ranks finish, odd ones block."""
    found = stages([RankLog("h200", 0, nccl(0, 2, 4, 6))])
    assert found.stuck == [1, 3, 5, 7]
    assert "ranks behind the others: 1 (NCCL init begun), 3 " in "\n".join(found.lines())
    assert stages([RankLog("h200", 0, nccl(*range(8)))]).stuck == []


def test_a_node_without_a_line_never_joined() -> None:
    """D8: no output at all from node 2."""
    found = stages([RankLog("node-1", 0, "INFO 12-01 01:30:37 [x.py:1] starts\n"), RankLog("node-2", 1, "")])
    assert found.silent == ["node-2"]
    assert found.lines() == ["node-1: started", "node-2: never joined: it wrote nothing"]


def test_real_ranks_come_to_the_end() -> None:
    """A headless rank serves nothing itself; without a GPU nothing is captured."""
    logs = [RankLog(it, rank, (LOGS / f"healthy-{it}.log").read_text()) for rank, it in enumerate(("head", "worker"))]
    found = stages(logs)
    assert found.nodes == {"head": "serving", "worker": "weights loaded"}
    assert found.ranks == {0: "weights loaded", 1: "weights loaded"}
    assert found.stuck == []


def test_a_real_rank_that_waits_for_the_others_says_where() -> None:
    text = (LOGS / "healthy-worker.log").read_text()
    found = stages([RankLog("worker", 1, text[: text.index("CPU SHM communicator")])])
    assert found.nodes == {"worker": "joins the store"}
