"""The judge inside a job: it takes a group that answers and passes, and ends with 2 for every other."""

import subprocess
import sys
from pathlib import Path

import pytest

from recipe.config.paths import CHECKOUT
from tests.standin.world import free_ports


def judged(logs: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    [port] = free_ports(1)
    argv = [sys.executable, "-m", "launch.cli.in_job", "--home", str(CHECKOUT), "--logs", str(logs), "--model", "m"]
    argv += ["--url", f"http://127.0.0.1:{port}", "--seconds", "0.1", "--node", "a", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=logs)


def test_a_group_that_does_not_answer_in_time_is_not_taken(tmp_path: Path) -> None:
    done = judged(tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    assert "hallmark: the group did not answer within 0.1 s: nothing answers at 127.0.0.1:" in done.stdout


def test_a_gate_that_is_gone_is_told_before_the_group_is_waited_for(tmp_path: Path) -> None:
    done = judged(tmp_path, "--gate", "nowhere")
    assert (done.returncode, "nowhere" in done.stdout) == (2, True)


def test_a_key_that_no_request_can_carry_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "hidden hidden")
    done = judged(tmp_path)
    assert (done.returncode, "env:VLLM_API_KEY is more than one plain word" in done.stdout) == (2, True), done.stdout
    assert "hidden" not in done.stdout
