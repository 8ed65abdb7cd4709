"""What a gate file says: the bars of one check, by kind. Measuring and judging are launch/proof's."""

import re
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, TypeAdapter, ValidationInfo, field_validator, model_validator

from recipe.config.explain import wrong
from recipe.config.kinds import load_kind
from recipe.config.models import Model

# Readiness and answers are judged on completions of at least this many tokens (CONTRACT: Launch): a server
# that can make one token has not yet run the decode loop, the drafter or the scheduler.
FEWEST_TOKENS = 10
# A drafter that is never right gives exactly 1; 1.0 to 1.15 is what a drafter on the wrong weights gave
# (stage-d-recipe, section 1). A bar inside that range would pass a collapse.
COLLAPSED_LENGTH = 1.15

SUMMARY = "one line: what a pass means"


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise wrong(f"{text!r} is not a regular expression: {error}", "escape what is meant literally") from error
    return text


def _position(text: str) -> str:
    if not re.fullmatch(r"0|[1-9]\d?", text):
        raise wrong(f"{text!r} is no draft position", 'write "0" for the first draft token, "1" for the second')
    return text


def _several(prompts: tuple[str, ...]) -> tuple[str, ...]:
    if len(prompts) < 2:
        raise wrong("one prompt is no batch", "list two prompts or more")
    return prompts


Count = Annotated[int, Field(strict=True, ge=1)]
Tokens = Annotated[int, Field(strict=True, ge=FEWEST_TOKENS, le=4096)]
Fraction = Annotated[float, Field(strict=True, ge=0, le=1)]
Seconds = Annotated[float, Field(strict=True, gt=0, le=3600)]
Position = Annotated[str, AfterValidator(_position)]
Text = Annotated[str, Field(min_length=1)]
Regex = Annotated[str, Field(min_length=1), AfterValidator(_regex)]


class Requests(Model):
    """What all gates that send completions share. All are greedy (temperature 0)."""

    max_tokens: Tokens = 32
    deadline: Seconds = 120.0  # seconds for one request; a big model's first one may still compile


class Expect(Model):
    """What one answer must be. Without `exact` or `contains` it must only be long enough and not empty."""

    exact: Text | None = None
    contains: Text | None = None
    min_tokens: Tokens = FEWEST_TOKENS


class Prompt(Model):
    """One prompt and what is expected of its answer; `via: chat` goes through the chat template."""

    prompt: Text = Field(description="the text that is sent")
    via: Literal["completions", "chat"] = "completions"
    expect: Expect = Expect()


class AnswersGate(Requests):
    """Every prompt gets the answer that is expected."""

    kind: Literal["answers"]
    summary: Text = Field(description=SUMMARY)
    prompts: Annotated[tuple[Prompt, ...], Field(min_length=1)] = Field(description="prompts with what is expected")

    @field_validator("prompts")
    @classmethod
    def _long_enough(cls, prompts: tuple[Prompt, ...], info: ValidationInfo) -> tuple[Prompt, ...]:
        asked = info.data.get("max_tokens")
        for prompt in prompts:
            if asked is not None and prompt.expect.min_tokens > asked:
                raise wrong(
                    f"min-tokens {prompt.expect.min_tokens} is more than max-tokens {asked}",
                    "ask for at least as many tokens as are expected",
                )
        return prompts


class Signal(Model):
    """A regular expression searched in each line of each rank's log, without colours and process prefixes."""

    pattern: Regex = Field(description="a regular expression")
    ranks: Literal["all", "head", "workers"] = "all"
    because: Text = Field(description="what its presence, or its absence when it is required, means")


class RequiredSignal(Signal):
    """Must be seen at least `min-count` times in the log of every rank in scope."""

    min_count: Count = 1


class LogsGate(Model):
    """Required lines are there and forbidden ones are not, on every rank in scope."""

    kind: Literal["logs"]
    summary: Text = Field(description=SUMMARY)
    required: tuple[RequiredSignal, ...] = ()
    forbidden: tuple[Signal, ...] = ()

    @model_validator(mode="after")
    def _something_to_check(self) -> "LogsGate":
        if not self.required and not self.forbidden:
            raise wrong("neither required nor forbidden lists a signal", "write at least one")
        return self


class AcceptanceGate(Requests):
    """Speculation on a fixed set of prompts accepts what it should, by the server's own counters.

    `min-mean-length` is tokens per step, the bonus token included: 1 + accepted / drafts.
    `min-per-position` maps a draft position (0 is the first draft token) to accepted / drafts.
    """

    kind: Literal["acceptance"]
    summary: Text = Field(description=SUMMARY)
    prompts: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(description="a list of texts")
    via: Literal["completions", "chat"] = "completions"
    min_mean_length: Annotated[float, Field(strict=True, gt=COLLAPSED_LENGTH)] = Field(
        description="tokens per step, the bonus token included"
    )
    min_rate: Fraction | None = None
    min_per_position: dict[Position, Fraction] = Field(default_factory=dict)
    min_drafts: Count = Field(description="the fewest drafts that make a figure")


class MetricGate(Model):
    """A sample of /metrics with these labels exists; with `equals`, each such sample has that value.

    The label value `launched` stands for the patch set that was launched.
    """

    kind: Literal["metric"]
    summary: Text = Field(description=SUMMARY)
    metric: Text = Field(description="a name as /metrics writes it, such as vllm:num_requests_running")
    labels: dict[str, str] = Field(default_factory=dict)
    equals: Annotated[float, Field(strict=True)] | None = None
    deadline: Seconds = 30.0


class BatchGate(Requests):
    """The prompts give the same text when they are sent together as one at a time."""

    kind: Literal["batch"]
    summary: Text = Field(description=SUMMARY)
    prompts: Annotated[tuple[Text, ...], AfterValidator(_several)] = Field(description="a list of two texts or more")


Gate = AnswersGate | LogsGate | AcceptanceGate | MetricGate | BatchGate

_KINDS: dict[str, type[Gate]] = {get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(Gate)}
_ANY: TypeAdapter[Gate] = TypeAdapter(Annotated[Gate, Field(discriminator="kind")])


def load_gate(home: Path, name: str) -> Gate:
    """Read the gate NAME of configs/gates/. Errors: as `load_kind`."""
    return load_kind(home, "gates", "gate", name, _KINDS)


def definition(gate: Gate) -> dict[str, object]:
    """The gate as JSON-able data; `parse` reads it back."""
    return gate.model_dump(mode="json", by_alias=True)


def parse(data: object) -> Gate:
    """Read a gate from plain data. Errors: pydantic.ValidationError."""
    return _ANY.validate_python(data)
