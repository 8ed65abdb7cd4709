"""Groups on a real Slurm of two nodes, with the StandIn of vLLM as ranks: launch, status, logs, stop, and faults."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.engines.slurm import Slurm
from tests.standin.world import World, until


@pytest.fixture
def cluster(world: World, slurm_nodes: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A cluster of that Slurm; its nodes have addresses, names and order that only the allocation knows."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_nodes.config))
    nodes = [{"name": "left", "address": "local"}, {"name": "right", "address": "local"}]
    world.cluster(engine="slurm", nodes=nodes)
    serve = {"served-model-name": "tiny", "host": "0.0.0.0", "tensor-parallel-size": 2}
    for name, patches in (("a", ()), ("b", ("collapses",)), ("c", ("greets",))):
        world.profile(name, *patches, serve=serve)
    yield world
    slurm_nodes.ask("scancel", "--partition=all")
    until(lambda: not jobs(slurm_nodes))


def jobs(slurm: Slurm) -> list[str]:
    return slurm.ask("squeue", "--noheader", "--format=%i").stdout.split()


def ended(slurm: Slurm, job: str) -> str:
    """The state and exit status in which a job ended."""
    told = slurm.ask("scontrol", "--oneliner", "show", "job", job).stdout
    words = dict(word.partition("=")[::2] for word in told.split())
    return f"{words['JobState']} {words['ExitCode']}"


def rank_processes(rank: int) -> list[int]:
    """The main processes of the StandIn's ranks of that number that run on a node of this Slurm."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                env = (entry / "environ").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            here = b"--node-rank" in words and words[words.index(b"--node-rank") + 1] == str(rank).encode()
            if here and b"VLLM_HOST_IP=127.0.0." in env and words[0].endswith(b"python"):
                found[int(entry.name)] = parent
    return [pid for pid, parent in found.items() if parent not in found]


def test_a_group_is_launched_replaced_restored_and_stopped_as_jobs(cluster: World, slurm_nodes: Slurm) -> None:
    first = cluster.done("launch", "pair", "-m", "first")
    assert first["url"] == f"http://127.0.0.1:{cluster.api}", "the address of the allocation's first node"
    assert [gate["verdict"] for gate in first["gates"]] == ["pass", "pass"]
    status = cluster.done("status", "pair")
    assert (status["state"], status["ready"]) == ("running", True)
    assert [(rank["rank"], rank["alive"], rank["drift"]) for rank in status["ranks"]] == [(0, True, []), (1, True, [])]
    logs = cluster.done("logs", "pair")["logs"]
    assert "startup complete" in "\n".join(logs["left"])
    assert logs["right"]
    [job] = jobs(slurm_nodes)
    assert "nothing to do" in cluster.run("launch", "pair").err
    assert jobs(slurm_nodes) == [job]

    bad = cluster.run("launch", "pair", "--profile", "b")
    assert bad.exit == 2
    assert "gate acceptance: fail" in bad.err
    assert "revision 1 is back and answers" in bad.err
    assert cluster.done("status", "pair")["revision"] == 1
    assert [entry["state"] for entry in cluster.done("history", "pair")["revisions"]] == ["committed", "restored"]

    assert cluster.done("stop", "pair")["stopped"] == [1]
    assert jobs(slurm_nodes) == []
    assert cluster.run("status", "pair").exit == 2


def test_a_rank_that_ends_ends_the_job_as_failed_and_status_says_so(cluster: World, slurm_nodes: Slurm) -> None:
    cluster.brief_trials()
    cluster.done("launch", "pair")
    [job] = jobs(slurm_nodes)
    [pid] = rank_processes(1)
    # The StandIn ends with 0 then, as vLLM does.
    os.kill(pid, signal.SIGTERM)
    until(lambda: not jobs(slurm_nodes))
    assert ended(slurm_nodes, job).startswith("FAILED 1:0")
    status = cluster.run("status", "pair", "--json")
    assert (status.exit, status.document["state"]) == (2, "stopped")
    assert "hallmark: rank 1 ended with 0" in "\n".join(cluster.done("logs", "pair")["logs"]["right"])


def test_a_job_that_somebody_cancelled_is_seen_and_can_be_launched_again(cluster: World, slurm_nodes: Slurm) -> None:
    cluster.brief_trials()
    cluster.done("launch", "pair")
    [job] = jobs(slurm_nodes)
    slurm_nodes.ask("scancel", job)
    until(lambda: not jobs(slurm_nodes))
    assert ended(slurm_nodes, job).startswith("CANCELLED")
    assert rank_processes(0) + rank_processes(1) == []
    assert cluster.run("status", "pair", "--json").document["state"] == "stopped"
    assert cluster.done("launch", "pair")["changed"]
    assert cluster.done("status", "pair")["state"] == "running"
