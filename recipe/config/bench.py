"""What a benchmark preset says: its requests, and figures that others published for the same ones."""

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator

from recipe.config.explain import wrong
from recipe.config.fields import Count, Name
from recipe.config.gate_parts import Seconds, Text
from recipe.config.kinds import load_kind
from recipe.config.models import Model

Tokens = Annotated[int, Field(strict=True, ge=1, le=1_048_576)]
Positive = Annotated[float, Field(strict=True, gt=0)]


class Published(Model):
    """Figures of somebody else, shown beside ours and never judged; keys are prompts or figures' names."""

    title: Text = Field(description="the column's head")
    source: Text = Field(description="where the figures were published, and on what they were measured")
    figures: Annotated[dict[str, Positive], Field(min_length=1)] = Field(description="a figure by its name")


class NamedPrompt(Model):
    """One prompt of a preset."""

    name: Name = Field(description="a short name")
    prompt: Text = Field(description="the text that is sent")


class PromptsPreset(Model):
    """Prompts one at a time, greedy, whole and streamed; then prefill alone at several lengths."""

    kind: Literal["prompts"]
    summary: Text = Field(description="one line: what it measures")
    via: Literal["completions", "chat"] = "chat"
    max_tokens: Tokens = Field(description="the most tokens of one answer")
    runs: Count = Field(description="counted requests for each prompt and each way of answering, after a warm-up")
    deadline: Seconds = 600.0
    prompts: Annotated[tuple[NamedPrompt, ...], Field(min_length=1)] = Field(description="names with their prompts")
    prefill: tuple[Tokens, ...] = Field((), description="prompt lengths, in tokens, to measure the prefill of")
    published: tuple[Published, ...] = ()

    @field_validator("prompts")
    @classmethod
    def _each_name_once(cls, prompts: tuple[NamedPrompt, ...]) -> tuple[NamedPrompt, ...]:
        seen: set[str] = set()
        for prompt in prompts:
            if prompt.name in seen:
                raise wrong(f"{prompt.name!r} names two prompts", "give each a name of its own")
            seen.add(prompt.name)
        return prompts


class LoadPreset(Model):
    """Many requests at a time through `vllm bench serve`."""

    kind: Literal["load"]
    summary: Text = Field(description="one line: what it measures")
    requests: Count = Field(description="requests in all")
    concurrency: Count = Field(description="requests at a time")
    output_tokens: Tokens = Field(description="tokens of every answer")
    deadline: Seconds = 3600.0
    published: tuple[Published, ...] = ()


Preset = PromptsPreset | LoadPreset

_KINDS: dict[str, type[Preset]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(Preset)
}


def load_preset(home: Path, name: str) -> Preset:
    """Read the preset NAME of configs/bench/. Errors: as `load_kind`."""
    return load_kind(home, "bench", "benchmark preset", name, _KINDS)
