"""One whole benchmark as JSON and as tables, with the figures that others published beside it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from launch.proof.bench.figures import Load, Prefill, PromptFigures, spec_document
from launch.proof.bench.loglines import Logged
from launch.proof.metrics import SpecCounts
from recipe.config.bench import Published

AVERAGE = "average"


@dataclass(frozen=True)
class Result:
    """What one preset found on one API.

    `logged` is what the head's own log said of speculation meanwhile, and `counted` what its counters say of the same
    time, warm-ups included; None when the log cannot be read or nothing is drafted.
    """

    preset: str
    url: str
    model: str
    vllm: str | None
    prompts: Sequence[PromptFigures]
    prefill: Sequence[Prefill]
    load: Load | None
    spec: SpecCounts | None
    logged: Logged | None
    counted: SpecCounts | None
    published: Sequence[Published]

    @property
    def flaws(self) -> list[str]:
        """Everything that makes a figure say less than it seems to."""
        found = [f"{prompt.name}: {flaw}" for prompt in self.prompts for flaw in prompt.flaws]
        found += [
            f"prefill {one.tokens}: {one.cached} tokens came from the cache" for one in self.prefill if one.cached
        ]
        if self.load is not None and self.load.failed:
            found.append(f"load: {self.load.failed} requests failed")
        if self.load is not None and self.load.missing:
            found.append(f"load: the answers are {self.load.missing} tokens short of what was asked for")
        if self.load is not None and self.load.foreign:
            found.append("load: other requests landed meanwhile")
        if self.logged is not None and self.counted is not None and not self.logged.agrees(self.counted):
            found.append(
                f"the log tells of {self.logged.accepted} accepted and {self.logged.drafted} drafted tokens, "
                f"the counters of {self.counted.accepted} and {self.counted.draft_tokens}"
            )
        return found

    @property
    def failed(self) -> bool:
        """Whether a request failed: the figures are then of a server that does not work."""
        runs = [run for prompt in self.prompts for run in prompt.runs]
        load = self.load
        return any(run.error is not None for run in runs) or (load is not None and bool(load.failed or load.missing))

    @property
    def average(self) -> float | None:
        """The mean of the prompts' tokens per second; None when one has none."""
        rates = [prompt.tok_s for prompt in self.prompts]
        known = [rate for rate in rates if rate is not None]
        return mean(known) if known and len(known) == len(rates) else None

    def document(self) -> dict[str, Any]:
        """Plain data (CONTRACT: JSON, bench)."""
        return {
            "preset": self.preset,
            "url": self.url,
            "model": self.model,
            "vllm": self.vllm,
            "prompts": {prompt.name: prompt.document() for prompt in self.prompts},
            "average_tok_s": self.average,
            "prefill": [{**asdict(one), "tok_s": one.tok_s} for one in self.prefill],
            "load": asdict(self.load) if self.load else {},
            "spec": spec_document(self.spec),
            "logged": asdict(self.logged) if self.logged else None,
            "counted": asdict(self.counted) if self.counted else None,
            "published": [column.model_dump() for column in self.published],
            "flaws": self.flaws,
        }

    def tables(self) -> list[list[list[str]]]:
        """The tables that people see: each a list of rows, the first one the head."""
        found = []
        if self.prompts:
            head = ["prompt", "tok/s", "spread", "tokens", "first text", *(column.title for column in self.published)]
            rows = [self._prompt(prompt) for prompt in self.prompts]
            rows.append([AVERAGE, _number(self.average), "", "", "", *self._published(AVERAGE)])
            found.append([head, *rows])
        if self.prefill:
            rows = [
                [str(one.tokens), _number(one.tok_s), one.skipped or f"{one.seconds:.2f} s"] for one in self.prefill
            ]
            found.append([["prefill tokens", "tok/s", ""], *rows])
        if self.load is not None:
            head = ["load", "here", *(column.title for column in self.published)]
            rows = [[name, _number(value), *self._published(name)] for name, value in self.load.figures.items()]
            found.append([head, *rows])
        if (spec := self.spec) is not None and spec.drafts > 0:
            positions = " ".join(f"{rate:.2f}" for rate in spec.position_rates)
            row = [_number(spec.rate), _number(spec.mean_length), positions, str(spec.drafts)]
            found.append([["acceptance rate", "mean length", "per position", "drafts"], row])
        return found

    def _prompt(self, prompt: PromptFigures) -> list[str]:
        spread = "" if prompt.spread is None else f"{prompt.spread:.0%}"
        tokens = ", ".join(str(run.tokens) for run in prompt.answered)
        first = "" if prompt.first is None else f"{prompt.first:.2f} s"
        return [prompt.name, _number(prompt.tok_s), spread, tokens, first, *self._published(prompt.name)]

    def _published(self, name: str) -> list[str]:
        return [_number(column.figures.get(name)) for column in self.published]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
