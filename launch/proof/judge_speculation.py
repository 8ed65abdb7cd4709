"""Judging of text that was generated with drafts against the model's own choices."""

from collections.abc import Sequence

from launch.proof.verdict import Judgement, Raw, Verdict, next_step
from recipe.config.gate import SpeculationGate


def judge_speculation(gate: SpeculationGate, raw: Raw) -> Judgement:
    """The share of tokens that the model chooses without drafts too; the control says what the model itself reaches."""
    bar = {"min-agreement": gate.min_agreement, "tolerance": gate.tolerance}

    def unclear(what: str, hint: str) -> Judgement:
        return Judgement(Verdict.INCONCLUSIVE, None, bar, f"{what} — {hint}")

    if "metrics_error" in raw:
        return unclear(f"/metrics could not be read: {raw['metrics_error']}", "look at the head's log")
    if "error" in raw:
        hint = next_step(raw, "look for the exception in the head's log")
        return Judgement(Verdict.FAIL, None, bar, f"a request failed: {raw['error']} — {hint}")
    prompts = raw["prompts"]
    drafts = [prompt["drafts"] for prompt in prompts]
    if any(count is None for counts in drafts for count in counts):
        return unclear("the server has no speculation counters", "launch with a speculative-config")
    if any(int(prompt["served_tokens"] or 0) > int(prompt["tokens"]) for prompt in prompts):
        return unclear("other requests ran too", "run the gate again while nobody else uses the server")
    if not all(between > start for start, between, _ in drafts):
        return unclear("nothing was drafted", "ask for more tokens; the drafter may never propose")
    if any(end != between for _, between, end in drafts):
        return unclear("drafts were made while the model was asked alone", "run it again while nobody uses the server")
    share = _share([int(prompt["tokens"]) for prompt in prompts], [prompt["behind"] for prompt in prompts], gate)
    control = _share(
        [int(prompt["control_tokens"]) for prompt in prompts], [prompt["control_behind"] for prompt in prompts], gate
    )
    total = sum(int(prompt["tokens"]) for prompt in prompts)
    said = f"{share:.1%} of {total} tokens are the model's own choice ({control:.1%} without drafts)"
    if share >= gate.min_agreement:
        return Judgement(Verdict.PASS, share, bar, said)
    if control < gate.min_agreement:
        return unclear(
            f"{said}: the model does not agree with itself either", "raise tolerance, with the reason beside it"
        )
    worst = max(float(behind) for prompt in prompts for _, behind in prompt["behind"])
    hint = "look at the patches that touch the proposer, the sampler or the cache; try without speculative-config"
    return Judgement(Verdict.FAIL, share, bar, f"{said}, the worst is {worst:.2f} nats behind it — {hint}")


def _share(tokens: Sequence[int], behind: Sequence[Sequence[Sequence[float]]], gate: SpeculationGate) -> float:
    apart = sum(1 for places in behind for _, nats in places if nats > gate.tolerance)
    return 1 - apart / sum(tokens)
