"""Measuring for gates: sends the requests, reads counters and logs, returns raw numbers as JSON-able data.

Nothing is judged here. A request that fails is part of the raw data, as `{"error": text}`; after a fault that
lasts (nothing listens, time-out) no more are sent and `unanswered` holds its text.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, assert_never

from launch.plan import logs
from launch.plan.logs import RankLog
from launch.proof import counters, metrics
from launch.proof.client import ApiError, Client, Completion, Via, complete_together
from recipe.config.gate import AcceptanceGate, AnswersGate, BatchGate, Gate, LogsGate, MetricGate
from recipe.errors import HallmarkError

Raw = dict[str, Any]

LONGEST_LINE = 300


@dataclass(frozen=True)
class GateContext:
    """What gates look at: the group's API, the served model's name, the ranks' logs at the time of asking,
    and the patch set that was launched (sha256 hex; None when it is not known)."""

    client: Client
    model: str
    logs: Callable[[], Sequence[RankLog]]
    patchset: str | None


def measure(gate: Gate, context: GateContext) -> Raw:
    """Measure what this gate is about. Never raises for what the server does."""
    match gate:
        case AnswersGate():
            return _answers(context, [(prompt.prompt, prompt.via) for prompt in gate.prompts], gate)
        case AcceptanceGate():
            return _acceptance(gate, context)
        case LogsGate():
            return _logs(gate, context)
        case MetricGate():
            return _metric(gate, context)
        case BatchGate():
            return _batch(gate, context)
        case _:
            assert_never(gate)


def _answers(
    context: GateContext, prompts: Sequence[tuple[str, Via]], gate: AnswersGate | AcceptanceGate | BatchGate
) -> Raw:
    answers: list[Raw] = []
    for prompt, via in prompts:
        try:
            answer = context.client.complete(
                context.model,
                prompt,
                tokens=gate.max_tokens,
                deadline=gate.deadline,
                via=via,
                # What a model writes after its own end is no text, and no drafter was made for it.
                to_the_end=not isinstance(gate, AcceptanceGate),
            )
        except ApiError as error:
            answers.append(_answer(error))
            if error.lasting:
                return {"answers": answers, "unanswered": str(error)}
        else:
            answers.append(_answer(answer))
    return {"answers": answers}


def _acceptance(gate: AcceptanceGate, context: GateContext) -> Raw:
    raw: Raw = {"answers": []}
    try:
        before = counters.quiet(context.client)
        raw |= _answers(context, [(prompt, gate.via) for prompt in gate.prompts], gate)
        after, tokens = _settled(context, before, raw["answers"])
        counts = {"before": metrics.spec_counts(before), "after": metrics.spec_counts(after)}
    except ApiError as error:
        return _unanswered(error) | raw
    return raw | tokens | {moment: asdict(count) if count else None for moment, count in counts.items()}


def _unanswered(error: ApiError) -> Raw:
    raw: Raw = {"metrics_error": str(error)}
    return raw | ({"unanswered": str(error)} if error.lasting else {})


def _settled(
    context: GateContext, before: list[metrics.Sample], answers: Sequence[Raw]
) -> tuple[list[metrics.Sample], Raw]:
    own = sum(int(answer.get("tokens", 0)) for answer in answers)
    after, served = counters.settled(context.client, before, own)
    return after, {"own_tokens": own, "served_tokens": served}


def _logs(gate: LogsGate, context: GateContext) -> Raw:
    try:
        read = [(log, logs.lines(log.text)) for log in context.logs()]
    except HallmarkError as error:
        return {"ranks": [], "logs_error": str(error)}
    return {
        "ranks": [{"node": log.node, "rank": log.rank, "lines": len(found)} for log, found in read],
        "required": [_seen(signal.pattern, signal.ranks, read) for signal in gate.required],
        "forbidden": [_seen(signal.pattern, signal.ranks, read) for signal in gate.forbidden],
    }


def _seen(pattern: str, ranks: str, read: Sequence[tuple[RankLog, list[str]]]) -> list[Raw]:
    seen: list[Raw] = []
    for log, found in read:
        if logs.in_scope(ranks, log.rank):
            matches = logs.matching(pattern, found)
            first = matches[0].strip()[:LONGEST_LINE] if matches else None
            seen.append({"node": log.node, "rank": log.rank, "count": len(matches), "first": first})
    return seen


def _metric(gate: MetricGate, context: GateContext) -> Raw:
    try:
        found = metrics.samples(context.client.metrics(deadline=gate.deadline))
    except ApiError as error:
        return _unanswered(error) | {"samples": []}
    return {
        "samples": [
            # JSON has no NaN and no infinity
            {"labels": dict(one.labels), "value": one.value if isfinite(one.value) else str(one.value)}
            for one in found
            if one.name == gate.metric
        ]
    }


def _batch(gate: BatchGate, context: GateContext) -> Raw:
    raw: Raw = {"alone": [], "together": []}
    try:
        start = counters.quiet(context.client)
        alone = _answers(context, [(prompt, "completions") for prompt in gate.prompts], gate)
        raw["alone"] = alone["answers"]
        if "unanswered" in alone:
            return raw | {"unanswered": alone["unanswered"]}
        between, tokens_alone = _settled(context, start, raw["alone"])
        raw |= _together(gate, context)
        end, tokens_together = _settled(context, between, raw["together"])
        steps = [metrics.total(metrics.STEPS, found) for found in (start, between, end)]
    except ApiError as error:
        return _unanswered(error) | raw
    return raw | {"tokens_alone": tokens_alone, "tokens_together": tokens_together, "steps": steps}


def _together(gate: BatchGate, context: GateContext) -> Raw:
    answers = complete_together(
        context.client, context.model, gate.prompts, tokens=gate.max_tokens, deadline=gate.deadline
    )
    lasting = [str(answer) for answer in answers if isinstance(answer, ApiError) and answer.lasting]
    raw: Raw = {"together": [_answer(answer) for answer in answers]}
    return raw | ({"unanswered": lasting[0]} if lasting else {})


def _answer(answer: Completion | ApiError) -> Raw:
    if isinstance(answer, ApiError):
        return {"error": str(answer)}
    return {"text": answer.text, "tokens": answer.tokens, "seconds": answer.seconds}
