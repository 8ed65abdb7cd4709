"""What a benchmark found: plain data with its JSON (CONTRACT: JSON, bench)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from launch.proof.metrics import SpecCounts


@dataclass(frozen=True)
class Run:
    """One request. `tokens` by the server's count, `seconds` of wall time, `tok_s` = tokens / seconds, prompt included.

    `first` is the time to the first text and `decode_tok_s` the rate after it, both of streamed runs only.
    `foreign` counts the tokens that the server generated for others meanwhile; None when it does not count.
    `error` says why there is no answer; the figures are 0 then.
    """

    streamed: bool
    tokens: int = 0
    seconds: float = 0.0
    tok_s: float = 0.0
    first: float | None = None
    decode_tok_s: float | None = None
    foreign: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class PromptFigures:
    """The runs of one prompt; figures are of those that answered, whole ones unless there are only streamed ones."""

    name: str
    runs: Sequence[Run]
    spec: SpecCounts | None

    @property
    def answered(self) -> list[Run]:
        """The runs behind the figures."""
        good = [run for run in self.runs if run.error is None]
        return [run for run in good if not run.streamed] or good

    @property
    def tok_s(self) -> float | None:
        """Median tokens per second; None when nothing answered."""
        return median(run.tok_s for run in self.answered) if self.answered else None

    @property
    def spread(self) -> float | None:
        """(fastest - slowest) / median, 0.1 is ten per cent; None when nothing answered."""
        rates = [run.tok_s for run in self.answered]
        return (max(rates) - min(rates)) / median(rates) if rates else None

    @property
    def first(self) -> float | None:
        """Median seconds to the first text of the streamed runs."""
        found = [run.first for run in self.runs if run.first is not None]
        return median(found) if found else None

    @property
    def flaws(self) -> list[str]:
        """Why these figures say less than they seem to."""
        failed = [run.error for run in self.runs if run.error is not None]
        found = [f"{len(failed)} of {len(self.runs)} requests failed: {failed[0]}"] if failed else []
        if any(run.foreign for run in self.runs):
            found.append("other requests landed meanwhile")
        return found

    def document(self) -> dict[str, Any]:
        """Plain data; `tokens` and `seconds` are sums over the runs behind `tok_s`."""
        return {
            "tokens": sum(run.tokens for run in self.answered),
            "seconds": sum(run.seconds for run in self.answered),
            "tok_s": self.tok_s,
            "spread": self.spread,
            "first": self.first,
            "runs": [asdict(run) for run in self.runs],
            "spec": spec_document(self.spec),
            "flaws": self.flaws,
        }


@dataclass(frozen=True)
class Prefill:
    """One prompt of `tokens` fresh tokens: seconds to its first token; `cached` of them the server had already."""

    tokens: int
    seconds: float = 0.0
    cached: int | None = None
    skipped: str | None = None

    @property
    def tok_s(self) -> float | None:
        """Prompt tokens per second; None when it was skipped."""
        return None if self.skipped is not None else self.tokens / self.seconds


@dataclass(frozen=True)
class Load:
    """What `vllm bench serve` reported (`report` is its JSON but the lists), by the names that presets use.

    `failed` counts requests without an answer; `foreign` tokens that the server generated for others meanwhile, None
    when it does not count; `missing` tokens that answers are short of, since none may end early.
    """

    figures: dict[str, float]
    failed: int
    command: Sequence[str]
    data: str
    report: dict[str, Any]
    foreign: int | None
    missing: int = 0


def spec_document(counts: SpecCounts | None) -> dict[str, Any] | None:
    """Speculation of an interval as plain data; None when the server did not speculate in it."""
    if counts is None or counts.drafts <= 0:
        return None
    return {
        "acceptance_rate": counts.rate,
        "mean_acceptance_length": counts.mean_length,
        "per_position": list(counts.position_rates),
        "drafts": counts.drafts,
    }
