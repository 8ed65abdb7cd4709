"""Requests of gates as raw data: answers, failures, and counters around them."""

from collections.abc import Iterable, Sequence
from typing import Any

from launch.proof import counters, metrics
from launch.proof.client import ApiError, Completion, Via
from launch.proof.context import GateContext
from recipe.config.gate import Requests

Raw = dict[str, Any]


def ask(context: GateContext, prompts: Iterable[tuple[str, Via]], gate: Requests, *, to_the_end: bool) -> Raw:
    """Ask one prompt after the other: `answers`, and `unanswered` after a fault that lasts."""
    found: list[Raw] = []
    for prompt, via in prompts:
        try:
            answer = context.client.complete(
                context.model,
                prompt,
                tokens=gate.max_tokens,
                deadline=gate.deadline,
                via=via,
                to_the_end=to_the_end,
            )
        except ApiError as error:
            found.append(told(error))
            if error.lasting:
                return {"answers": found, "unanswered": str(error)}
        else:
            found.append(told(answer))
    return {"answers": found}


def told(answer: Completion | ApiError) -> Raw:
    """One answer, or why there is none."""
    if isinstance(answer, ApiError):
        return {"error": str(answer)}
    return {"text": answer.text, "tokens": answer.tokens, "seconds": answer.seconds}


def failed(error: ApiError) -> Raw:
    """A gate's whole measurement that ended with a failed request."""
    return {"error": str(error)} | ({"unanswered": str(error)} if error.lasting else {})


def no_metrics(error: ApiError) -> Raw:
    """A gate's measurement whose counters could not be read."""
    raw: Raw = {"metrics_error": str(error)}
    return raw | ({"unanswered": str(error)} if error.lasting else {})


def settled(
    context: GateContext, before: list[metrics.Sample], answers: Sequence[Raw]
) -> tuple[list[metrics.Sample], Raw]:
    """The counters once they hold these answers: `own_tokens` of them, `served_tokens` by the server's count."""
    own = sum(int(answer.get("tokens", 0)) for answer in answers)
    after, served = counters.settled(context.client, before, own)
    return after, {"own_tokens": own, "served_tokens": served}
