"""Runs the prompts of a preset, one request at a time, with the server's counters read around each."""

from collections.abc import Callable

from launch.proof import counters, metrics
from launch.proof.bench.figures import PromptFigures, Run
from launch.proof.client import ApiError, Client
from recipe.config.bench import NamedPrompt, PromptsPreset


def run(client: Client, model: str, preset: PromptsPreset, say: Callable[[str], None]) -> list[PromptFigures]:
    """Measure every prompt. Errors: ApiError when the server cannot be measured at all; a request that fails is
    part of the figures."""
    found = []
    for number, prompt in enumerate(preset.prompts, 1):
        say(f"prompt {number} of {len(preset.prompts)}, {prompt.name}: {preset.runs} whole and {preset.runs} streamed")
        found.append(_prompt(client, model, preset, prompt))
    return found


def _prompt(client: Client, model: str, preset: PromptsPreset, prompt: NamedPrompt) -> PromptFigures:
    _one(client, model, preset, prompt.prompt, streamed=False)
    before = counters.quiet(client)
    start = metrics.spec_counts(before)
    runs = []
    for streamed in (False, True):
        for _ in range(preset.runs):
            run = _one(client, model, preset, prompt.prompt, streamed)
            before, served = counters.settled(client, before, run.tokens)
            foreign = None if served is None or run.error else max(0, served - run.tokens)
            runs.append(Run(**{**vars(run), "foreign": foreign}))
    end = metrics.spec_counts(before)
    return PromptFigures(prompt.name, runs, end.since(start) if start is not None and end is not None else None)


def _one(client: Client, model: str, preset: PromptsPreset, prompt: str, streamed: bool) -> Run:
    tokens, deadline, via = preset.max_tokens, preset.deadline, preset.via
    try:
        if not streamed:
            whole = client.complete(model, prompt, tokens=tokens, deadline=deadline, via=via, to_the_end=False)
            if not whole.tokens:
                return Run(streamed, error="the answer is empty")
            return Run(streamed, whole.tokens, whole.seconds, whole.tokens / whole.seconds)
        answer = client.stream(model, prompt, tokens=tokens, deadline=deadline, via=via)
    except ApiError as error:
        return Run(streamed, error=str(error))
    # A step with accepted drafts brings several tokens at once, the first one too; a whole step is not told apart.
    after = answer.seconds - answer.first
    decode = (answer.tokens - 1) / after if answer.tokens > 1 and after > 0 else None
    return Run(streamed, answer.tokens, answer.seconds, answer.tokens / answer.seconds, answer.first, decode)
