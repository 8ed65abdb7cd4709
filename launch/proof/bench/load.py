"""A load through `vllm bench serve`: its command, its run, and its report in the names that presets use."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.proof import counters, metrics
from launch.proof.bench import conversations
from launch.proof.bench.figures import Load
from launch.proof.client import Client
from launch.proof.metrics import SpecCounts
from recipe.config.bench import LoadPreset
from recipe.errors import HallmarkError, Refused

# A figure's name in a preset → its key in the report of `vllm bench serve`.
FIGURES = {
    "requests per second": "request_throughput",
    "output tok/s": "output_throughput",
    "mean TTFT ms": "mean_ttft_ms",
    "median TTFT ms": "median_ttft_ms",
    "mean TPOT ms": "mean_tpot_ms",
    "median TPOT ms": "median_tpot_ms",
}
LOCAL = "made here, in ShareGPT's form"


@dataclass(frozen=True)
class Target:
    """What is loaded: the vLLM program that sends the requests, the served model, its tokenizer (path or id), and
    a ShareGPT file (None: one is made)."""

    program: str
    model: str
    tokenizer: str
    data: Path | None


def command(target: Target, base_url: str, preset: LoadPreset, data: Path, folder: Path) -> list[str]:
    """The argument list of `vllm bench serve`; its report lands in FOLDER/report.json."""
    return [
        target.program, "bench", "serve",
        "--backend", "openai", "--base-url", base_url, "--endpoint", "/v1/completions",
        "--model", target.model, "--tokenizer", target.tokenizer,
        "--dataset-name", "sharegpt", "--dataset-path", str(data), "--sharegpt-output-len", str(preset.output_tokens),
        "--num-prompts", str(preset.requests), "--max-concurrency", str(preset.concurrency),
        "--temperature", "0", "--ignore-eos", "--seed", "0",
        "--save-result", "--result-dir", str(folder), "--result-filename", "report.json",
    ]  # fmt: skip


def run(
    client: Client, target: Target, preset: LoadPreset, api_key: str | None, say: Callable[[str], None]
) -> tuple[Load, SpecCounts | None]:
    """Send the load; its figures and the speculation meanwhile.

    Errors: Refused when the program fails, with its last lines; HallmarkError when its report is not one; ApiError.
    """
    with tempfile.TemporaryDirectory(prefix="hallmark-bench-") as name:
        folder = Path(name)
        data = target.data
        if data is None:
            data = folder / "conversations.json"
            # Some are dropped by the sampler as too short or too long.
            conversations.write(data, preset.requests * 4)
        argv = command(target, client.base_url, preset, data, folder)
        say(f"{preset.requests} requests, {preset.concurrency} at a time, {preset.output_tokens} tokens each")
        before = counters.quiet(client)
        _call(argv, preset.deadline, api_key)
        report = _report(folder / "report.json")
        own = int(report.get("total_output_tokens", 0))
        after, served = counters.settled(client, before, own)
    start, end = metrics.spec_counts(before), metrics.spec_counts(after)
    spec = end.since(start) if start is not None and end is not None else None
    figures = {name: float(report[key]) for name, key in FIGURES.items() if key in report}
    if spec is not None and spec.rate is not None and spec.mean_length is not None:
        figures |= {"acceptance rate": spec.rate, "mean acceptance length": spec.mean_length}
    failed = preset.requests - int(report.get("completed", 0))
    # The program begins with one request of the same length that its report leaves out.
    foreign = None if served is None else max(0, served - own - preset.output_tokens)
    return Load(figures, failed, argv, str(target.data or LOCAL), report, foreign), spec


def _call(argv: Sequence[str], deadline: float, api_key: str | None) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1")}
    if api_key:
        environment["OPENAI_API_KEY"] = api_key
    try:
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, errors="replace", timeout=deadline, check=False
        )
    except subprocess.TimeoutExpired:
        raise Refused(
            f"`vllm bench serve` did not finish within {deadline:g} s", hint="raise `deadline` in the preset"
        ) from None
    except OSError as error:
        raise HallmarkError(
            f"{argv[0]} cannot be run: {error.strerror}", hint="name a vLLM program with --vllm"
        ) from None
    if done.returncode:
        raise Refused(f"`vllm bench serve` failed with exit {done.returncode}: {done.stderr.strip()[-600:]}")


def _report(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HallmarkError(f"`vllm bench serve` left no report that can be read: {error}") from None
    # The texts and times of every request: megabytes that no figure needs.
    return {key: value for key, value in report.items() if not isinstance(value, list)}
