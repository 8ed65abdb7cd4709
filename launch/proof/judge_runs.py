"""Judging of noisy figures, acceptance and throughput, by the intervals of their runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from launch.proof.metrics import SpecCounts, together
from launch.proof.sequential import Looks, Reading
from launch.proof.verdict import Judgement, Raw, Verdict, next_step
from recipe.config.gate import AcceptanceGate, Bars, ThroughputGate
from recipe.config.gate_parts import Repeated

_QUIET = "run the gate again while nobody else uses the server"


@dataclass(frozen=True)
class Figure:
    """One figure with its bar: `values` by run; `told` says a miss, with `{value}` and `{bar}` in it."""

    bar: float
    values: Sequence[float]
    told: str
    form: str

    def said(self, value: float) -> str:
        return self.told.format(value=format(value, self.form), bar=format(self.bar, self.form))


def judge_acceptance(gate: AcceptanceGate, raw: Raw) -> Judgement:
    """Judge runs that hold nothing but the gate's own requests."""
    bar: dict[str, Any] = {**_bars(gate), "min-drafts": gate.min_drafts}
    if gate.workloads:
        bar["workloads"] = {workload.name: _bars(workload) for workload in gate.workloads}
    if gate.draft_tokens is not None:
        bar["draft-tokens"] = gate.draft_tokens

    def unclear(what: str, hint: str) -> Judgement:
        return Judgement(Verdict.INCONCLUSIVE, None, bar, f"{what} — {hint}")

    if failed := _failed(raw, bar):
        return failed
    # Certificates of earlier versions have one run without its own name.
    runs = raw.get("runs", [{"all": raw}])
    spans = [span for run in runs for span in run.values()]
    if any(span["before"] is None or span["after"] is None for span in spans):
        return unclear(
            "the server has no speculation counters",
            "launch with a speculative-config and without --disable-log-stats",
        )
    if any(min(c.drafts, c.draft_tokens, c.accepted, *c.per_position) < 0 for c in map(_counts, spans)):
        return unclear("the counters went backwards: the server restarted", "find out why in the head's log")
    clean = _clean(runs)
    if len(clean) < min(gate.fewest_runs, len(runs)):
        return unclear(_foreign(runs), _QUIET)
    counts = [{name: _counts(span) for name, span in run.items()} for run in clean]
    totals = [together(list(run.values())) for run in counts]
    fewest = min(total.drafts for total in totals)
    if fewest < gate.min_drafts or any(c.drafts <= 0 or c.draft_tokens <= 0 for run in counts for c in run.values()):
        return unclear(
            f"{fewest} drafts were made, at least {gate.min_drafts} are needed for a figure",
            "ask for more tokens or more prompts; none at all means that the drafter never proposes",
        )
    width = max(len(total.per_position) for total in totals)
    if gate.draft_tokens is not None and width != gate.draft_tokens:
        return unclear(
            f"not comparable: the bars are for {gate.draft_tokens} drafted tokens, and the server drafts {width}",
            "use a gate whose bars were made for that number",
        )
    whole = together(totals)
    length, rate = whole.mean_length or 1.0, whole.rate or 0.0
    figures = _figures(gate, totals, "")
    for workload in gate.workloads:
        figures += _figures(workload, [run[workload.name] for run in counts], f"{workload.name}: ")
    said = f"mean acceptance length {length:.2f} and rate {rate:.1%} over {whole.drafts} drafts"
    if len(clean) > 1:
        said += f" in {len(clean)} runs"
    return _verdict(
        gate,
        figures,
        length,
        bar,
        f"{said}, the bar is {gate.min_mean_length:g}",
        said,
        "compare the draft model's load lines and the patches that touch the proposer with those of the last certified"
        " image",
    )


def judge_throughput(gate: ThroughputGate, raw: Raw) -> Judgement:
    """Judge runs that hold nothing but the gate's own requests; the value is that of the slowest against its bar."""
    bar = {workload.name: workload.min_tok_s for workload in gate.workloads}
    if failed := _failed(raw, bar):
        return failed
    runs = raw["runs"]
    clean = _clean(runs)
    if len(clean) < min(gate.fewest_runs, len(runs)):
        return Judgement(Verdict.INCONCLUSIVE, None, bar, f"{_foreign(runs)} — {_QUIET}")
    figures = [
        Figure(
            low,
            [run[name]["own_tokens"] / run[name]["seconds"] for run in clean],
            f"{name}: {{value}} tok/s, the bar is {{bar}}",
            ".1f",
        )
        for name, low in bar.items()
    ]
    looks = _looks(gate)
    means = {name: looks.interval(figure.values).mean for name, figure in zip(bar, figures, strict=True)}
    worst = min(means, key=lambda name: means[name] / bar[name])
    said = ", ".join(f"{name} {mean:.1f}" for name, mean in means.items())
    said = f"{said} tok/s over {len(clean)} {'run' if len(clean) == 1 else 'runs'}"
    hint = "see whether speculation works (acceptance) and what else uses the machine; compare `hallmark bench`"
    return _verdict(gate, figures, means[worst], bar, f"{said}, each above its bar", said, hint)


def acceptance_is_clear(gate: AcceptanceGate, runs: Sequence[Raw]) -> bool:
    """Whether more runs would change nothing; asked after each."""
    if any(span["before"] is None for run in runs for span in run.values()):
        return True
    return _is_clear(gate, runs, lambda: judge_acceptance(gate, {"answers": [], "runs": runs}))


def throughput_is_clear(gate: ThroughputGate, runs: Sequence[Raw]) -> bool:
    """Whether more runs would change nothing; asked after each."""
    return _is_clear(gate, runs, lambda: judge_throughput(gate, {"answers": [], "runs": runs}))


def _is_clear(gate: Repeated, runs: Sequence[Raw], verdict: Callable[[], Judgement]) -> bool:
    if len(_clean(runs)) < gate.fewest_runs:
        return False
    found = verdict()
    # Without a value there is no figure, and more runs make none.
    return found.verdict is not Verdict.INCONCLUSIVE or found.value is None


def _verdict(
    gate: Repeated, figures: list[Figure], value: float, bar: dict[str, Any], good: str, said: str, hint: str
) -> Judgement:
    looks = _looks(gate)
    read = [(figure, looks.reads(figure.values, figure.bar)) for figure in figures]
    missed = [figure for figure, reading in read if reading is Reading.MISSES]
    if missed:
        told = "; ".join(figure.said(looks.interval(figure.values).mean) for figure in missed)
        return Judgement(Verdict.FAIL, value, bar, f"{said}; {told} — {hint}")
    still_open = [figure for figure, reading in read if reading is Reading.OPEN]
    if still_open:
        figure = still_open[0]
        interval = looks.interval(figure.values)
        told = f"{figure.said(interval.mean)}, and the interval {interval} holds it"
        return Judgement(
            Verdict.INCONCLUSIVE, value, bar, f"{said}; {told} — run it on a quiet machine, or raise most-runs"
        )
    return Judgement(Verdict.PASS, value, bar, good)


def _failed(raw: Raw, bar: dict[str, Any]) -> Judgement | None:
    errors = [str(answer["error"]) for answer in raw["answers"] if "error" in answer]
    if errors:
        hint = next_step(raw, "look for the exception in the head's log")
        return Judgement(Verdict.FAIL, None, bar, f"{len(errors)} of the prompts failed: {errors[0]} — {hint}")
    if any(not answer["tokens"] or not str(answer["text"]).strip() for answer in raw["answers"]):
        return Judgement(Verdict.FAIL, None, bar, "an answer was empty — ask the same prompt by hand")
    if "metrics_error" in raw:
        reason = f"/metrics could not be read: {raw['metrics_error']} — look at the head's log"
        return Judgement(Verdict.INCONCLUSIVE, None, bar, reason)
    return None


def _figures(bars: Bars | AcceptanceGate, counts: Sequence[SpecCounts], name: str) -> list[Figure]:
    lengths = [count.mean_length or 1.0 for count in counts]
    found = [Figure(bars.min_mean_length, lengths, f"{name}{{value}}, the bar for the length is {{bar}}", ".3g")]
    if bars.min_rate is not None:
        rates = [count.rate or 0.0 for count in counts]
        found.append(Figure(bars.min_rate, rates, f"{name}{{value}}, the bar for the rate is {{bar}}", ".1%"))
    for position, least in bars.min_per_position.items():
        values = [_at(count.position_rates, int(position)) for count in counts]
        told = f"{name}position {position} accepts {{value}}, the bar is {{bar}}"
        found.append(Figure(least, values, told, ".1%"))
    return found


def _at(rates: Sequence[float], position: int) -> float:
    return rates[position] if position < len(rates) else 0.0


def _bars(bars: Bars | AcceptanceGate) -> dict[str, Any]:
    return {
        "min-mean-length": bars.min_mean_length,
        "min-rate": bars.min_rate,
        "min-per-position": dict(bars.min_per_position),
    }


def _looks(gate: Repeated) -> Looks:
    return Looks(gate.fewest_runs, gate.most_runs, gate.confidence)


def crowded(raw: Raw) -> bool:
    """Whether all was answered, and the figures of its runs cannot be told from those of other requests."""
    spans = [span for run in raw.get("runs", ()) for span in run.values()]
    return any(not _own(span) for span in spans) and _failed(raw, {}) is None


def _clean(runs: Sequence[Raw]) -> list[Raw]:
    return [run for run in runs if all(_own(span) for span in run.values())]


def _own(span: Raw) -> bool:
    return span["served_tokens"] is None or int(span["served_tokens"]) == int(span["own_tokens"])


def _foreign(runs: Sequence[Raw]) -> str:
    served = sum(int(span["served_tokens"] or 0) for span in runs[-1].values())
    own = sum(int(span["own_tokens"]) for span in runs[-1].values())
    return f"the server counted {served} generated tokens and these prompts got {own}: other requests ran too"


def _counts(span: Raw) -> SpecCounts:
    before, after = (
        SpecCounts(
            int(raw["drafts"]),
            int(raw["draft_tokens"]),
            int(raw["accepted"]),
            tuple(int(count) for count in raw["per_position"]),
        )
        for raw in (span["before"], span["after"])
    )
    return after.since(before)
