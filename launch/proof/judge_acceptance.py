"""Judging of the acceptance gate: speculation counters of an interval against the bars."""

from launch.proof.metrics import SpecCounts
from launch.proof.verdict import Judgement, Raw, Verdict, next_step
from recipe.config.gate import AcceptanceGate


def judge_acceptance(gate: AcceptanceGate, raw: Raw) -> Judgement:
    """Judge an interval that holds nothing but the gate's own requests."""
    bar = {
        "min-mean-length": gate.min_mean_length,
        "min-rate": gate.min_rate,
        "min-per-position": dict(gate.min_per_position),
        "min-drafts": gate.min_drafts,
    }

    def unclear(what: str, hint: str) -> Judgement:
        return Judgement(Verdict.INCONCLUSIVE, None, bar, f"{what} — {hint}")

    errors = [str(answer["error"]) for answer in raw["answers"] if "error" in answer]
    if errors:
        hint = next_step(raw, "look for the exception in the head's log")
        return Judgement(Verdict.FAIL, None, bar, f"{len(errors)} of the prompts failed: {errors[0]} — {hint}")
    if "metrics_error" in raw:
        return unclear(f"/metrics could not be read: {raw['metrics_error']}", "look at the head's log")
    if raw["before"] is None or raw["after"] is None:
        return unclear(
            "the server has no speculation counters",
            "launch with a speculative-config and without --disable-log-stats",
        )
    counts = _counts(raw["after"]).since(_counts(raw["before"]))
    if min(counts.drafts, counts.draft_tokens, counts.accepted, *counts.per_position) < 0:
        return unclear("the counters went backwards: the server restarted", "find out why in the head's log")
    served, own = raw["served_tokens"], int(raw["own_tokens"])
    if served is not None and int(served) != own:
        landed = f"the server counted {served} generated tokens and these prompts got {own}"
        return unclear(f"{landed}: other requests ran too", "run the gate again while nobody else uses the server")
    length, rate = counts.mean_length, counts.rate
    if counts.drafts < gate.min_drafts or length is None or rate is None:
        return unclear(
            f"{counts.drafts} drafts were made, at least {gate.min_drafts} are needed for a figure",
            "ask for more tokens or more prompts; none at all means that the drafter never proposes",
        )
    missed = _missed(gate, length, rate, counts.position_rates)
    said = f"mean acceptance length {length:.2f} and rate {rate:.1%} over {counts.drafts} drafts"
    if not missed:
        return Judgement(Verdict.PASS, length, bar, f"{said}, the bar is {gate.min_mean_length:g}")
    return Judgement(
        Verdict.FAIL,
        length,
        bar,
        f"{said}; {'; '.join(missed)} — compare the draft model's load lines and the patches that touch the"
        " proposer with those of the last certified image",
    )


def _missed(gate: AcceptanceGate, length: float, rate: float, positions: tuple[float, ...]) -> list[str]:
    missed = []
    if length < gate.min_mean_length:
        missed.append(f"the bar for the length is {gate.min_mean_length:g}")
    if gate.min_rate is not None and rate < gate.min_rate:
        missed.append(f"the bar for the rate is {gate.min_rate:.1%}")
    for position, low in gate.min_per_position.items():
        found = positions[int(position)] if int(position) < len(positions) else 0.0
        if found < low:
            missed.append(f"position {position} accepts {found:.1%}, the bar is {low:.1%}")
    return missed


def _counts(raw: Raw) -> SpecCounts:
    positions = tuple(int(count) for count in raw["per_position"])
    return SpecCounts(int(raw["drafts"]), int(raw["draft_tokens"]), int(raw["accepted"]), positions)
