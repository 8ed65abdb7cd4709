"""Groups on a real Slurm of two nodes, with the StandIn of vLLM as ranks: launch, status, logs, stop, and faults."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.group import liveness, transition
from recipe.image.reference import Reference
from recipe.image.registry import Repository
from scripts.engines import registry
from scripts.engines.slurm import Slurm
from tests.conftest import possible
from tests.launch.proof.test_attached import image
from tests.standin.hooks import at_call
from tests.standin.world import World, free_ports, until

pytestmark = pytest.mark.slurm


@pytest.fixture
def cluster(world: World, slurm_nodes: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A cluster of that Slurm; its nodes have addresses, names and order that only the allocation knows."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_nodes.config))
    # What users set for themselves hides no job, and keeps none from being cancelled.
    for name, value in {"SQUEUE_STATES": "PENDING", "SQUEUE_PARTITION": "none", "SCANCEL_STATE": "PENDING"}.items():
        monkeypatch.setenv(name, value)
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


def rank_processes(world: World, rank: int) -> list[int]:
    """The main processes of this world's ranks of that number."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_text().split("\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            here = f"{world.models}/tiny" in words and words[words.index("--node-rank") + 1] == str(rank)
            if here and "bash" not in words[0]:
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
    [pid] = rank_processes(cluster, 1)
    # The StandIn ends with 0 then, as vLLM does.
    os.kill(pid, signal.SIGTERM)
    until(lambda: not jobs(slurm_nodes))
    assert ended(slurm_nodes, job).startswith("FAILED")
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
    assert rank_processes(cluster, 0) + rank_processes(cluster, 1) == []
    assert cluster.run("status", "pair", "--json").document["state"] == "stopped"
    assert cluster.done("launch", "pair")["changed"]
    assert cluster.done("status", "pair")["state"] == "running"


def submitted(cluster: World, slurm: Slurm, folder: Path, *words: str) -> tuple[str, str]:
    """Render and submit a job by hand; its number and what it wrote, once it ended."""
    assert cluster.run("render", "pair", "--out", str(folder), "--stage", *words).exit == 0
    script, output = folder / "pair.sbatch", folder / "job.out"
    [job] = slurm.ask("sbatch", "--parsable", f"--chdir={folder}", f"--output={output}", str(script)).stdout.split()
    until(lambda: job not in jobs(slurm))
    return job, output.read_text()


def test_a_job_submitted_by_hand_ends_as_failed_when_a_gate_does_not_pass(
    cluster: World, slurm_nodes: Slurm, tmp_path: Path
) -> None:
    job, said = submitted(cluster, slurm_nodes, tmp_path / "out", "--profile", "b")
    assert "hallmark: answers: pass" in said
    assert "hallmark: gate acceptance: fail" in said
    assert "is served at" not in said
    assert ended(slurm_nodes, job) == "FAILED 2:0"
    assert rank_processes(cluster, 0) + rank_processes(cluster, 1) == []


def test_a_job_submitted_by_hand_ends_when_a_rank_fails_as_it_starts(
    cluster: World, slurm_nodes: Slurm, tmp_path: Path
) -> None:
    cluster.profile("a", "fails-at-start")
    job, said = submitted(cluster, slurm_nodes, tmp_path / "out")
    assert "hallmark: the group ended; its logs are in" in said
    assert ended(slurm_nodes, job).startswith("FAILED")


def test_a_job_that_fails_as_it_starts_is_told_with_the_reason_and_nothing_is_left(
    cluster: World, slurm_nodes: Slurm
) -> None:
    cluster.profile("a", "fails-at-start")
    failed = cluster.run("launch", "pair")
    assert failed.exit == 2
    assert "nothing runs, as before" in failed.err
    assert jobs(slurm_nodes) == []


def test_a_secret_reaches_the_ranks_and_no_file(
    cluster: World, slurm_nodes: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("from a file\n")
    monkeypatch.setenv("MY_SECRET", "from the shell")
    cluster.profile("a", env={"TOKEN_A": "env:MY_SECRET", "TOKEN_B": f"file:{tmp_path}/key"})
    cluster.done("launch", "pair")
    [pid] = rank_processes(cluster, 1)
    given = Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert {"TOKEN_A=from the shell", "TOKEN_B=from a file"} <= set(given)
    assert not any(line.startswith(("SLURM_", "MY_SECRET")) for line in given)
    for path in cluster.node.rglob("*"):
        assert not path.is_file() or "from the shell" not in path.read_text(errors="replace"), path


def test_what_slurm_would_not_take_is_refused_before_anything_is_touched(cluster: World) -> None:
    nodes = [{"name": "left", "address": "local"}, {"name": "right", "address": "local"}]
    cluster.cluster(engine="slurm", nodes=nodes, slurm={"partition": "nowhere"})
    refused = cluster.run("launch", "pair")
    assert refused.exit == 2
    assert "Slurm would not take the job: " in refused.err
    assert "partition" in refused.err
    looked = cluster.run("preflight", "pair", "--json")
    assert (looked.exit, looked.document["verdict"]) == (2, "FAIL")
    assert cluster.done("history", "pair")["revisions"] == []


def test_a_held_job_and_those_of_a_slurm_that_does_not_answer_are_not_taken_for_stopped(
    cluster: World, slurm_nodes: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.brief_trials()
    cluster.done("launch", "pair")
    [job] = jobs(slurm_nodes)
    # Somebody gave it a name that he can read.
    slurm_nodes.ask("scontrol", "update", f"jobid={job}", "name=the team's | group")
    slurm_nodes.ask("scontrol", "suspend", job)
    status = cluster.run("status", "pair", "--json").document
    assert status["state"] == "degraded"
    assert "rank 0 (left) hangs: its job is SUSPENDED" in status["missing"]
    slurm_nodes.ask("scontrol", "resume", job)
    lost = tmp_path / "slurm.conf"
    lost.write_text("ClusterName=x\nSlurmctldHost=localhost\nSlurmctldPort=1\nAuthType=auth/none\n")
    lost.write_text(lost.read_text() + "MessageTimeout=1\nSlurmctldTimeout=1\nNodeName=x\n")
    with monkeypatch.context() as patched:
        patched.setenv("SLURM_CONF", str(lost))
        found = cluster.run("status", "pair", "--json")
        assert (found.exit, found.document["error"]["exit"]) == (5, 5)
        assert "squeue: " in found.document["error"]["message"]
        stopped = cluster.run("stop", "pair")
        assert (stopped.exit, "squeue: " in stopped.err) == (5, True)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{tmp_path}:/usr/sbin:/bin")
        patched.setattr("shutil.which", lambda name: None)
        found = cluster.run("stop", "pair")
        assert (found.exit, "there is no program squeue on PATH" in found.err) == (5, True)
    assert cluster.done("status", "pair")["state"] == "running"


def test_an_image_is_launched_by_its_digest_through_a_standin_of_pyxis(
    cluster: World, slurm_nodes: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """enroot and pyxis are not here: the StandIn of srun takes their options away and runs the ranks on the machine."""
    [port] = free_ports(1)
    with possible():
        started = registry.start(tmp_path / "registry", port)
    try:
        with Repository(Reference(started.address, "vllm")) as repository:
            manifest = image(repository)
        (tmp_path / "srun").write_text(
            f"""#!/bin/bash
for word; do case $word in --*container-*) echo "$word" >> {tmp_path}/options ;; *) kept+=("$word") ;; esac; done
exec {shutil.which("srun")} "${{kept[@]}}"
"""
        )
        (tmp_path / "srun").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{cluster.venv}/bin:{os.environ['PATH']}")
        nodes = [{"name": "left", "address": "local"}, {"name": "right", "address": "local"}]
        paths = {"state": str(cluster.node), "models": str(cluster.models)}
        cluster.cluster(engine="slurm", nodes=nodes, paths=paths)
        tag = f"{started.address}/vllm:one"
        launched = cluster.done("launch", "pair", "--image", tag)
        assert [gate["verdict"] for gate in launched["gates"]] == ["pass", "pass"]
        status = cluster.done("status", "pair")
        assert (status["state"], status["image"]) == ("running", f"{started.address}/vllm@{manifest}")
        options = (tmp_path / "options").read_text().splitlines()
        assert f"--container-image={started.address}#vllm@{manifest}" in options
        assert f"{cluster.models}/tiny:/models/tiny:ro" in options[1]
        assert "nothing to do" in cluster.run("launch", "pair", "--image", tag).err
        cluster.done("stop", "pair")
    finally:
        started.end()


def test_a_launch_that_was_killed_leaves_one_job_of_the_next_one(cluster: World, slurm_nodes: Slurm) -> None:
    cluster.brief_trials()
    # Names that files of the job have, too.
    nodes = [{"name": name, "address": "local"} for name in ("rank-0", "job")]
    cluster.cluster(engine="slurm", nodes=nodes)
    killed = cluster.begin("launch", "pair", before=at_call(transition, "wait_until_ready", 1)(signal.SIGKILL))
    assert killed.wait().exit == 128 + signal.SIGKILL
    [old] = jobs(slurm_nodes)
    cluster.done("launch", "pair")
    [new] = jobs(slurm_nodes)
    assert new != old
    logs = cluster.done("logs", "pair")["logs"]
    assert "startup complete" in "\n".join(logs["rank-0"])
    assert logs["job"] != logs["rank-0"]
    assert ended(slurm_nodes, old).startswith("CANCELLED")


def test_a_launch_that_waits_in_the_queue_is_given_up_with_ctrl_c(cluster: World, slurm_nodes: Slurm) -> None:
    slurm_nodes.ask("sbatch", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 60")
    until(lambda: slurm_nodes.ask("squeue", "--noheader", "--states=RUNNING").stdout)
    [other] = jobs(slurm_nodes)
    waiting = cluster.begin("launch", "pair")
    waiting.says("is in the queue (")
    assert len(jobs(slurm_nodes)) == 2
    waiting.signal(signal.SIGINT)
    ends = waiting.wait()
    assert (ends.exit, "nothing runs, as before" in ends.err) == (2, True)
    assert jobs(slurm_nodes) == [other]


def test_a_job_that_is_cancelled_in_the_queue_is_told_as_that(cluster: World, slurm_nodes: Slurm) -> None:
    slurm_nodes.ask("sbatch", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 60")
    waiting = cluster.begin("launch", "pair")
    waiting.says("is in the queue (")
    second = cluster.run("launch", "pair")
    assert (second.exit, "the cluster is being changed by" in second.err) == (6, True)
    slurm_nodes.ask("scancel", jobs(slurm_nodes)[-1], jobs(slurm_nodes)[0])
    ends = waiting.wait()
    assert (ends.exit, "ended as CANCELLED before its ranks were seen" in ends.err) == (2, True), ends.err


def test_a_controller_that_is_away_for_a_while_ends_no_launch_that_waits(
    cluster: World, slurm_nodes: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question without an answer took a job out of the queue, and a start whose ranks were well was given up."""
    cluster.brief_trials()
    away = tmp_path / "away"
    # StandIn of a squeue that finds nobody, three times as the job is submitted, and then while its ranks start.
    (tmp_path / "squeue").write_text(
        f"""#!/bin/bash
echo x >> {away}
case $(wc -l < {away}) in 2|3|4|6|7|8|9) echo "squeue: error: Unable to contact slurm controller" >&2; exit 1 ;; esac
exec {shutil.which("squeue")} "$@"
"""
    )
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(liveness, "CUT_SECONDS", 1.5)
    launched = cluster.run("launch", "pair")
    assert launched.exit == 0, launched.err
    assert "Slurm does not answer and is asked again" in launched.err
    assert len(away.read_text().split()) > 9
