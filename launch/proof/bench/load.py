"""A load through `vllm bench serve`: its arguments, and its report in the names that presets use."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.proof import counters, metrics
from launch.proof.bench import conversations
from launch.proof.bench.figures import Load
from launch.proof.bench.program import Program
from launch.proof.client import Client
from launch.proof.metrics import SpecCounts
from recipe.config.bench import LoadPreset
from recipe.errors import HallmarkError

# A figure's name in a preset → its key in the report of `vllm bench serve`. Its peak is left out: it counts the pieces
# of streams, which a step with accepted drafts fills with several tokens (reference case G1).
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
    """What is loaded: the program that sends the requests, the address as it reaches it, the served model, its
    tokenizer (path or id, for that program), and a ShareGPT file (None: one is made)."""

    program: Program
    url: str
    model: str
    tokenizer: str
    data: Path | None


def words(target: Target, preset: LoadPreset) -> list[str]:
    """The arguments of `vllm bench serve` but those that name files. No request is sent before the counted ones."""
    return [
        "--backend", "openai", "--base-url", target.url, "--endpoint", "/v1/completions",
        "--model", target.model, "--tokenizer", target.tokenizer,
        "--dataset-name", "sharegpt", "--sharegpt-output-len", str(preset.output_tokens),
        "--num-prompts", str(preset.requests), "--max-concurrency", str(preset.concurrency),
        "--temperature", "0", "--ignore-eos", "--seed", "0", "--ready-check-timeout-sec", "0",
        "--save-result",
    ]  # fmt: skip


def run(
    client: Client, target: Target, preset: LoadPreset, api_key: str | None, say: Callable[[str], None]
) -> tuple[Load, SpecCounts | None]:
    """Send the load; its figures and the speculation meanwhile.

    Errors: Refused when the program fails, with its last lines; HallmarkError when its report is not one; ApiError.
    """
    with tempfile.TemporaryDirectory(prefix="hallmark-bench-") as name:
        data = target.data
        if data is None:
            data = Path(name) / "conversations.json"
            # Some are dropped by the sampler as too short or too long.
            conversations.write(data, preset.requests * 4)
        argv = words(target, preset)
        say(f"{preset.requests} requests, {preset.concurrency} at a time, {preset.output_tokens} tokens each")
        before = counters.quiet(client)
        report = _report(target.program.serve(argv, data, api_key, preset.deadline))
    own = int(report.get("total_output_tokens", 0))
    after, served = counters.settled(client, before, own)
    start, end = metrics.spec_counts(before), metrics.spec_counts(after)
    spec = end.since(start) if start is not None and end is not None else None
    figures = {name: float(report[key]) for name, key in FIGURES.items() if key in report}
    if spec is not None and spec.rate is not None and spec.mean_length is not None:
        figures |= {"acceptance rate": spec.rate, "mean acceptance length": spec.mean_length}
    completed = int(report.get("completed", 0))
    return (
        Load(
            figures,
            preset.requests - completed,
            argv,
            str(target.data or LOCAL),
            report,
            None if served is None else max(0, served - own),
            max(0, completed * preset.output_tokens - own),
        ),
        spec,
    )


def _report(text: str) -> dict[str, Any]:
    try:
        report = json.loads(text)
    except ValueError as error:
        raise HallmarkError(f"`vllm bench serve` left no report that can be read: {error}") from None
    if not isinstance(report, dict):
        raise HallmarkError("`vllm bench serve` left no report that can be read: it is no JSON object")
    # The texts and times of every request: megabytes that no figure needs.
    return {key: value for key, value in report.items() if not isinstance(value, list)}
