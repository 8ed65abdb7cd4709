"""Tokens per second of single greedy completions: a figure to show, with the runs that it comes from."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from launch.proof.client import Client


@dataclass(frozen=True)
class Run:
    """One completion: tokens by the server's count, seconds of wall time including the prompt's."""

    tokens: int
    seconds: float
    tok_s: float


@dataclass(frozen=True)
class Throughput:
    """`tok_s` is the median over `runs`; `tokens` and `seconds` are sums over them."""

    tokens: int
    seconds: float
    tok_s: float
    runs: Sequence[Run]

    def document(self) -> dict[str, Any]:
        """The figure as plain data (CONTRACT: JSON, bench)."""
        return asdict(self)


def single_stream(
    client: Client, model: str, prompt: str, *, tokens: int, runs: int = 3, deadline: float = 120.0
) -> Throughput:
    """Measure one prompt, one request at a time, after one warm-up that is not counted. Errors: ApiError."""
    client.complete(model, prompt, tokens=tokens, deadline=deadline)
    found = []
    for _ in range(runs):
        answer = client.complete(model, prompt, tokens=tokens, deadline=deadline)
        found.append(Run(answer.tokens, answer.seconds, answer.tokens / answer.seconds))
    return Throughput(
        tokens=sum(run.tokens for run in found),
        seconds=sum(run.seconds for run in found),
        tok_s=median(run.tok_s for run in found),
        runs=found,
    )
