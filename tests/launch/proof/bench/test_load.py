"""A load through `vllm bench serve`: the command, its report, and the local data set."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from launch.nodes import ssh
from launch.plan.place import Place
from launch.proof.bench import conversations
from launch.proof.bench.loglines import Logged, logged
from launch.proof.bench.program import INSIDE, ContainerProgram, LocalProgram
from launch.proof.bench.run import Subject, bench
from launch.proof.metrics import SpecCounts
from recipe.config.bench import LoadPreset
from recipe.errors import HallmarkError, Refused

PRESET = LoadPreset.model_validate(
    {"kind": "load", "summary": "s", "requests": 50, "concurrency": 16, "output-tokens": 256}
)
# A stand-in for the vLLM program: writes down its arguments and leaves a report of the real one's keys.
PROGRAM = """#!{python}
import json, sys
arguments = sys.argv[1:]
folder = arguments[arguments.index("--result-dir") + 1]
json.dump({{"completed": {completed}, "total_output_tokens": {tokens}, "request_throughput": 2.5, "mean_ttft_ms": 10.0,
            "ttfts": [1, 2]}}, open(folder + "/report.json", "w"))
json.dump(arguments, open({seen!r}, "w"))
sys.exit({exit})
"""


def silent(line: str) -> None:
    """Nobody reads what is said."""


def program(folder: Path, completed: int = 50, exit: int = 0, tokens: int | None = None) -> LocalProgram:
    """A stand-in for vLLM; unless told otherwise every answer has the 256 tokens that were asked for."""
    path = folder / "vllm"
    generated = completed * 256 if tokens is None else tokens
    seen = str(folder / "seen")
    text = PROGRAM.format(python=sys.executable, completed=completed, seen=seen, exit=exit, tokens=generated)
    path.write_text(text)
    path.chmod(0o755)
    return LocalProgram(str(path))


def test_a_load_has_the_shape_of_its_preset_and_keeps_the_report(tmp_path: Path, stand_in: Callable[..., Any]) -> None:
    url = stand_in().url
    result = bench(Subject(url, None, None, program(tmp_path), None, None), "p", PRESET, silent)
    assert result.load is not None
    assert result.load.figures == {"requests per second": 2.5, "mean TTFT ms": 10.0}
    assert "ttfts" not in result.load.report
    assert not result.failed
    words = " ".join(json.loads((tmp_path / "seen").read_text()))
    for part in ("--num-prompts 50", "--max-concurrency 16", "--sharegpt-output-len 256", f"--base-url {url}"):
        assert part in words


def test_requests_that_the_program_lost_fail_the_benchmark(tmp_path: Path, stand_in: Callable[..., Any]) -> None:
    result = bench(Subject(stand_in().url, None, None, program(tmp_path, 48), None, None), "p", PRESET, silent)
    assert result.failed
    assert "load: 2 requests failed" in result.flaws


def test_g1_answers_that_ended_early_fail_the_benchmark(tmp_path: Path, stand_in: Callable[..., Any]) -> None:
    sender = program(tmp_path, tokens=50 * 256 - 300)
    result = bench(Subject(stand_in().url, None, None, sender, None, None), "p", PRESET, silent)
    assert result.failed
    assert "load: the answers are 300 tokens short of what was asked for" in result.flaws


def test_the_vllm_of_a_container_gets_its_data_and_key_without_showing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def run(place: Place, argv: Sequence[str], **options: Any) -> "subprocess.CompletedProcess[str]":
        asked.append({"place": place, "argv": list(argv), **options})
        return subprocess.CompletedProcess(argv, 0, '{"completed": 2}', "")

    monkeypatch.setattr("launch.nodes.reach.run", run)
    data = tmp_path / "data.json"
    data.write_text('[{"id": "secret conversation"}]')
    place = Place("a", "host-a", None)
    report = ContainerProgram(place, "id0").serve(["--model", "m"], data, "sk-key", 60.0)
    assert json.loads(report) == {"completed": 2}
    (call,) = asked
    argv = call["argv"]
    assert argv[:6] == ["docker", "exec", "--interactive", "--env", "OPENAI_API_KEY", "id0"]
    assert argv[-5:] == ["vllm", "bench", "serve", "--model", "m"]
    assert "sk-key" not in " ".join(argv)
    assert (call["given"], call["variables"]) == (data.read_text(), {"OPENAI_API_KEY": "sk-key"})
    # What was sent once must not be sent again by a connection that broke.
    assert call["once"] is True


@pytest.mark.parametrize("status", [0, 3])
def test_what_runs_in_the_container_leaves_nothing_there_and_writes_only_its_report(
    status: int, tmp_path: Path
) -> None:
    """The script that the container's shell is given, run by this machine's shell."""
    (tmp_path / "work").mkdir()
    sender = program(tmp_path, exit=status).path
    argv = ["sh", "-c", INSIDE, "sh", sender, "bench", "serve", "--model", "m"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "work")}
    done = subprocess.run(argv, input="[1]", capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == status
    assert list((tmp_path / "work").iterdir()) == []
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen[:4] == ["bench", "serve", "--model", "m"]
    assert seen[seen.index("--dataset-path") + 1].startswith(str(tmp_path / "work"))
    if status == 0:
        assert json.loads(done.stdout)["completed"] == 50


def test_a_load_in_a_container_that_does_not_end_is_told_with_what_to_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(place: Place, argv: Sequence[str], **options: Any) -> "subprocess.CompletedProcess[str]":
        raise ssh.Late("node a did not end `docker exec …` within 60 s")

    monkeypatch.setattr("launch.nodes.reach.run", run)
    data = tmp_path / "data.json"
    data.write_text("[]")
    with pytest.raises(Refused, match=r"did not finish within 60 s — raise `deadline` in the preset"):
        ContainerProgram(Place("a", "host-a", None), "id0").serve([], data, None, 60.0)


def test_a_program_that_fails_is_told_with_its_exit(tmp_path: Path, stand_in: Callable[..., Any]) -> None:
    with pytest.raises(Refused, match="failed with exit 3"):
        bench(
            Subject(stand_in().url, None, None, program(tmp_path, exit=3), None, None),
            "p",
            PRESET,
            silent,
        )


@pytest.mark.parametrize(("name", "told"), [(None, "no vLLM program here"), ("/nowhere/vllm", "cannot be run")])
def test_a_program_that_is_not_there_is_one_line(name: str | None, told: str, stand_in: Callable[..., Any]) -> None:
    sender = LocalProgram(name) if name else None
    with pytest.raises(HallmarkError, match=told):
        bench(Subject(stand_in().url, None, None, sender, None, None), "p", PRESET, silent)


def test_local_conversations_are_the_same_each_time_and_long_enough_for_the_sampler(tmp_path: Path) -> None:
    for name in ("one", "two"):
        conversations.write(tmp_path / name, 200)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    entries = json.loads((tmp_path / "one").read_text())
    lengths = [len(entry["conversations"][0]["value"].split()) for entry in entries]
    assert len(entries) == 200
    # The sampler drops what has fewer than 4 or more than 1,024 tokens.
    assert min(lengths) >= 6
    assert max(lengths) < 800


def test_the_log_agrees_with_the_counters_or_the_difference_is_told() -> None:
    line = (
        "INFO 12-01 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 2.41, Accepted throughput: 1.00 "
        "tokens/s, Drafted throughput: 2.00 tokens/s, Accepted: {} tokens, Drafted: {} tokens, Per-position ..."
    )
    told = logged([line.format(10, 50), "another line", line.format(2, 10)])
    assert told == Logged(12, 60)
    assert told.agrees(SpecCounts(12, 60, 12, ()))
    assert not told.agrees(SpecCounts(12, 65, 12, ()))
