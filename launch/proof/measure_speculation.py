"""Measures whether text that was generated with drafts is what the model chooses without them.

No release can switch speculation off for one request (vllm-project/vllm#55412 is closed). What is never speculated is
a prompt, and the one token after it. So the model is shown prompt and answer as one prompt and asked, in one pass,
which token it would have chosen at each place (`prompt_logprobs`); and as a control some tokens are generated one
request each. The counters of drafts prove for both that nothing was drafted.
"""

from launch.proof import counters, metrics
from launch.proof.asking import Raw, failed, no_metrics
from launch.proof.client import ApiError
from launch.proof.context import GateContext
from recipe.config.gate import SpeculationGate


def speculation(gate: SpeculationGate, context: GateContext) -> Raw:
    """By prompt: tokens, how far each that is not the model's first choice is behind it, the same of the control."""
    found: list[Raw] = []
    for prompt in gate.prompts:
        try:
            start = counters.quiet(context.client)
        except ApiError as error:
            return no_metrics(error) | {"prompts": found}
        try:
            found.append(_one(gate, context, prompt, start))
        except ApiError as error:
            return failed(error) | {"prompts": found}
    return {"prompts": found}


def _one(gate: SpeculationGate, context: GateContext, prompt: str, start: list[metrics.Sample]) -> Raw:
    client, model = context.client, context.model
    answer = client.tokens(model, prompt, tokens=gate.max_tokens, deadline=gate.deadline)
    between, served = counters.settled(client, start, len(answer.ids))
    control: list[int] = []
    for _ in range(min(gate.control_tokens, len(answer.ids))):
        one = client.tokens(model, [*answer.prompt_ids, *control], tokens=1, deadline=gate.deadline)
        control += one.ids
    raw = {
        "tokens": len(answer.ids),
        "served_tokens": served,
        "behind": _behind(gate, context, answer.prompt_ids, answer.ids),
        "control_tokens": len(control),
        "control_behind": _behind(gate, context, answer.prompt_ids, control),
        "control_same": control == answer.ids[: len(control)],
    }
    # Each look at the choices makes one token of its own.
    end, _ = counters.settled(client, between, len(control) + 2)
    drafts = [counts.drafts if (counts := metrics.spec_counts(it)) else None for it in (start, between, end)]
    return raw | {"drafts": drafts}


def _behind(gate: SpeculationGate, context: GateContext, prompt: list[int], ids: list[int]) -> list[list[float]]:
    """(place, nats behind the first choice) of each token that is not the first choice itself."""
    choices = context.client.choices(context.model, [*prompt, *ids], deadline=gate.deadline)
    own = choices[len(prompt) :]
    return [[float(place), one.behind] for place, one in enumerate(own) if one.behind > 0]
