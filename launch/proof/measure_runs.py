"""Measures noisy figures, acceptance and throughput, again and again until the judge has seen enough."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

from launch.proof import counters, metrics
from launch.proof.asking import Raw, ask, no_metrics, settled
from launch.proof.client import ApiError, Via
from launch.proof.context import GateContext
from launch.proof.judge_runs import acceptance_is_clear, throughput_is_clear
from recipe.config.gate import AcceptanceGate, Requests, ThroughputGate


def acceptance(gate: AcceptanceGate, context: GateContext) -> Raw:
    """Each run asks all prompts of each workload, with the speculation counters around the workload.

    `before`, `after`, `own_tokens` and `served_tokens` span all runs; each of `runs` has the same by workload.
    """
    # What a model writes after its own end is no text, and no drafter was made for it.
    sets = {name: [(prompt, gate.via) for prompt in prompts] for name, prompts in gate.sets().items()}
    raw = _runs(gate, context, sets, gate.most_runs, lambda runs: acceptance_is_clear(gate, runs))
    spans = [span for run in raw["runs"] for span in run.values()]
    if "metrics_error" in raw or not spans:
        return raw
    return raw | {
        "before": spans[0]["before"],
        "after": spans[-1]["after"],
        "own_tokens": sum(span["own_tokens"] for span in spans),
        "served_tokens": None
        if any(span["served_tokens"] is None for span in spans)
        else sum(span["served_tokens"] for span in spans),
    }


def throughput(gate: ThroughputGate, context: GateContext) -> Raw:
    """A warm-up of each prompt, which is not counted, then runs of all of them, one request at a time."""
    sets: dict[str, list[tuple[str, Via]]] = {one.name: [(one.prompt, gate.via)] for one in gate.workloads}
    warm = ask(context, [prompt for prompts in sets.values() for prompt in prompts], gate, to_the_end=False)
    if any("error" in answer for answer in warm["answers"]):
        return warm | {"runs": []}
    return _runs(gate, context, sets, gate.most_runs, lambda runs: throughput_is_clear(gate, runs))


def _runs(
    gate: Requests,
    context: GateContext,
    sets: dict[str, list[tuple[str, Via]]],
    most: int,
    enough: Callable[[Sequence[Raw]], bool],
) -> Raw:
    raw: Raw = {"answers": [], "runs": []}
    try:
        after = counters.quiet(context.client)
        while len(raw["runs"]) < most and not enough(raw["runs"]):
            run: Raw = {}
            for name, prompts in sets.items():
                # What others ask between two workloads is in the next one's interval, and shows there.
                before = after
                found = ask(context, prompts, gate, to_the_end=False)
                raw["answers"] += found["answers"]
                if "unanswered" in found:
                    return raw | {"unanswered": found["unanswered"]}
                after, tokens = settled(context, before, found["answers"])
                counts = {"before": metrics.spec_counts(before), "after": metrics.spec_counts(after)}
                seconds = sum(answer.get("seconds", 0.0) for answer in found["answers"])
                run[name] = {
                    **tokens,
                    **{moment: asdict(count) if count else None for moment, count in counts.items()},
                    "seconds": seconds,
                }
            raw["runs"].append(run)
            if any("error" in answer for answer in raw["answers"]):
                return raw
    except ApiError as error:
        return no_metrics(error) | raw
    return raw
