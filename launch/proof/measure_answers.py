"""Measures what answers say: single prompts, a batch, a prompt as long as the context allows."""

import random
import secrets
from dataclasses import asdict

from launch.proof import counters, metrics
from launch.proof.asking import Raw, ask, failed, no_metrics, settled, told
from launch.proof.client import ApiError, complete_together
from launch.proof.context import GateContext
from recipe.config.gate import AnswersGate, BatchGate, LongPromptGate

# Any text of common words will do: its tokens in random order are the long prompt.
_WORDS = (
    "one two three four five six seven eight nine red orange yellow green blue Monday Tuesday Wednesday Thursday "
    "Friday Saturday Sunday the of and to in is that it was for on are with as at be this have from or had by"
)


def answers(gate: AnswersGate, context: GateContext) -> Raw:
    """Ask every prompt."""
    return ask(context, [(prompt.prompt, prompt.via) for prompt in gate.prompts], gate, to_the_end=True)


def batch(gate: BatchGate, context: GateContext) -> Raw:
    """Ask the prompts one by one, then all at once; with the engine's steps before, between and after."""
    raw: Raw = {"alone": [], "together": []}
    try:
        start = counters.quiet(context.client)
        alone = ask(context, [(prompt, "completions") for prompt in gate.prompts], gate, to_the_end=True)
        raw["alone"] = alone["answers"]
        if "unanswered" in alone:
            return raw | {"unanswered": alone["unanswered"]}
        between, tokens_alone = settled(context, start, raw["alone"])
        raw |= _together(gate, context)
        end, tokens_together = settled(context, between, raw["together"])
        steps = [metrics.total(metrics.STEPS, found) for found in (start, between, end)]
    except ApiError as error:
        return no_metrics(error) | raw
    return raw | {"tokens_alone": tokens_alone, "tokens_together": tokens_together, "steps": steps}


def long_prompt(gate: LongPromptGate, context: GateContext) -> Raw:
    """Ask the short prompt, a long one of random words that leaves room for its answer, and the short one again."""
    try:
        served = next(it for it in context.client.served(deadline=gate.deadline) if it.name == context.model)
        words = context.client.tokenize(context.model, _WORDS, deadline=gate.deadline)
        before = ask(context, [(gate.then, "completions")], gate, to_the_end=True)
        if served.longest is None or "unanswered" in before:
            return {"longest": served.longest, "before": before["answers"][0]} | before
        length = served.longest - gate.max_tokens
        length = length if gate.at_most is None else min(length, gate.at_most)
        # Drawn anew each time: what an earlier run sent may still be in the prefix cache.
        draw = random.Random(secrets.randbits(64))
        # A prompt begins as the tokenizer begins one.
        ids = [words[0], *(draw.choice(words[1:]) for _ in range(length - 1))]
        answer = context.client.complete(context.model, ids, tokens=gate.max_tokens, deadline=gate.deadline)
        after = ask(context, [(gate.then, "completions")], gate, to_the_end=True)
    except StopIteration:
        return {"error": f"/v1/models does not list {context.model}"}
    except ApiError as error:
        return failed(error)
    return {
        "longest": served.longest,
        "length": length,
        "answer": asdict(answer),
        "before": before["answers"][0],
        "after": after["answers"][0],
    }


def _together(gate: BatchGate, context: GateContext) -> Raw:
    found = complete_together(
        context.client, context.model, gate.prompts, tokens=gate.max_tokens, deadline=gate.deadline
    )
    lasting = [str(answer) for answer in found if isinstance(answer, ApiError) and answer.lasting]
    raw: Raw = {"together": [told(answer) for answer in found]}
    return raw | ({"unanswered": lasting[0]} if lasting else {})
