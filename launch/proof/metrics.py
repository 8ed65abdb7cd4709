"""Reading of vLLM's /metrics text: samples, and the counters of speculative decoding."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from launch.proof.client import BadReply

DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
ACCEPTED_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
GENERATED = "vllm:generation_tokens_total"
# The histogram of tokens per step; its count is the number of steps.
STEPS = "vllm:iteration_tokens_total_count"


@dataclass(frozen=True)
class Sample:
    """One line of /metrics."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class SpecCounts:
    """Counters of speculative decoding, summed over engines: since the server's start, or of an interval.

    `per_position[i]` counts the accepted tokens at draft position i.
    """

    drafts: int
    draft_tokens: int
    accepted: int
    per_position: tuple[int, ...]

    def since(self, before: "SpecCounts") -> "SpecCounts":
        """The counts of the interval from `before` to here; negative when the server restarted in between."""
        width = max(len(self.per_position), len(before.per_position))
        now, then = (counts + (0,) * (width - len(counts)) for counts in (self.per_position, before.per_position))
        return SpecCounts(
            self.drafts - before.drafts,
            self.draft_tokens - before.draft_tokens,
            self.accepted - before.accepted,
            tuple(a - b for a, b in zip(now, then, strict=True)),
        )

    @property
    def rate(self) -> float | None:
        """Accepted draft tokens / draft tokens; None when there was no draft token."""
        return self.accepted / self.draft_tokens if self.draft_tokens > 0 else None

    @property
    def mean_length(self) -> float | None:
        """Tokens per step, the bonus token included: 1 + accepted / drafts; None when there was no draft."""
        return 1 + self.accepted / self.drafts if self.drafts > 0 else None

    @property
    def position_rates(self) -> tuple[float, ...]:
        """Accepted / drafts at each draft position; empty when there was no draft."""
        return tuple(count / self.drafts for count in self.per_position) if self.drafts > 0 else ()


def samples(text: str) -> list[Sample]:
    """Parse the text of /metrics. Errors: BadReply."""
    try:
        return [
            Sample(sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
    except (ValueError, KeyError, IndexError) as error:
        raise BadReply(f"/metrics is not in Prometheus' text format: {error}") from error


def spec_counts(found: Iterable[Sample]) -> SpecCounts | None:
    """Sum the speculation counters over engines; None when the server has none (it does not speculate)."""
    totals = {DRAFTS: 0.0, DRAFT_TOKENS: 0.0, ACCEPTED: 0.0}
    positions: dict[int, float] = {}
    seen: set[str] = set()
    for sample in found:
        if sample.name in totals:
            totals[sample.name] += sample.value
            seen.add(sample.name)
        elif sample.name == ACCEPTED_PER_POSITION and sample.labels.get("position", "").isdigit():
            position = int(sample.labels["position"])
            positions[position] = positions.get(position, 0) + sample.value
    if len(seen) < len(totals):
        return None
    width = max(positions, default=-1) + 1
    return SpecCounts(
        _whole(totals[DRAFTS]),
        _whole(totals[DRAFT_TOKENS]),
        _whole(totals[ACCEPTED]),
        tuple(_whole(positions.get(index, 0)) for index in range(width)),
    )


def total(name: str, found: Iterable[Sample]) -> int | None:
    """A counter such as GENERATED or STEPS, summed over engines; None when the server does not have it."""
    values = [sample.value for sample in found if sample.name == name]
    return _whole(sum(values)) if values else None


def together(counts: Sequence[SpecCounts]) -> SpecCounts:
    """The sum of several intervals."""
    width = max((len(count.per_position) for count in counts), default=0)
    padded = [count.per_position + (0,) * (width - len(count.per_position)) for count in counts]
    return SpecCounts(
        sum(count.drafts for count in counts),
        sum(count.draft_tokens for count in counts),
        sum(count.accepted for count in counts),
        tuple(sum(column) for column in zip(*padded, strict=True)),
    )


def _whole(counter: float) -> int:
    try:
        return int(counter)
    except (ValueError, OverflowError) as error:
        raise BadReply(f"a counter of /metrics is {counter}") from error
