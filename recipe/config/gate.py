"""What a gate file says: the bars of one check, by kind. Measuring and judging are launch/proof's."""

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, TypeAdapter, ValidationInfo, field_validator, model_validator

from recipe.config.explain import wrong
from recipe.config.fields import Name
from recipe.config.gate_parts import (
    COLLAPSED_LENGTH,
    FEWEST_TOKENS,
    Bars,
    Count,
    Fraction,
    Judged,
    Position,
    Regex,
    Repeated,
    Requests,
    RequiredSignal,
    Seconds,
    Serve,
    Signal,
    Text,
    Tokens,
    Workload,
    conditions,
    several,
)
from recipe.config.kinds import load_kind
from recipe.config.models import Model

__all__ = ["COLLAPSED_LENGTH", "Bars", "Judged", "Requests", "Serve", "Signal", "Workload", "conditions"]

Via = Literal["completions", "chat"]
Positive = Annotated[float, Field(strict=True, gt=0)]
TemplateValue = Annotated[bool, Field(strict=True)] | str


class Expect(Model):
    """What one answer must be. Without `exact` or `contains` it must only be long enough and not empty."""

    exact: Text | None = None
    contains: Text | None = None
    min_tokens: Tokens = FEWEST_TOKENS


class Prompt(Model):
    """One prompt and what is expected of its answer; `via: chat` goes through the chat template."""

    prompt: Text = Field(description="the text that is sent")
    via: Via = "completions"
    expect: Expect = Expect()


class AnswersGate(Requests):
    """Every prompt gets the answer that is expected."""

    kind: Literal["answers"]
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


class LogsGate(Judged):
    """Required lines are there and forbidden ones are not, on every rank in scope."""

    kind: Literal["logs"]
    required: tuple[RequiredSignal, ...] = ()
    forbidden: tuple[Signal, ...] = ()

    @model_validator(mode="after")
    def _something_to_check(self) -> "LogsGate":
        if not self.required and not self.forbidden:
            raise wrong("neither required nor forbidden lists a signal", "write at least one")
        return self


class AcceptanceGate(Repeated):
    """Speculation on fixed sets of prompts accepts what it should, by the server's own counters.

    The bars of the gate itself hold for all its prompts together, those of a workload for that workload.
    `draft-tokens` is what the bars were made for: figures of another number are not comparable with them.
    """

    kind: Literal["acceptance"]
    prompts: tuple[Text, ...] = ()
    workloads: Annotated[tuple[Workload, ...], Field(validate_default=True)] = ()
    via: Via = "completions"
    draft_tokens: Count | None = None
    min_mean_length: Annotated[float, Field(strict=True, gt=COLLAPSED_LENGTH)] = Field(
        description="tokens per step, the bonus token included"
    )
    min_rate: Fraction | None = None
    min_per_position: dict[Position, Fraction] = Field(default_factory=dict)
    min_drafts: Count = Field(description="the fewest drafts in all that make a figure")

    @field_validator("workloads")
    @classmethod
    def _one_of_both(cls, workloads: tuple[Workload, ...], info: ValidationInfo) -> tuple[Workload, ...]:
        prompts = info.data.get("prompts")
        if prompts is not None and bool(prompts) == bool(workloads):
            what = "both are given" if prompts else "neither prompts nor workloads are given"
            raise wrong(what, "list either `prompts`, or `workloads` with bars of their own")
        return workloads

    def sets(self) -> dict[str, tuple[str, ...]]:
        """The prompts by workload; those without one have the name `all`."""
        return {workload.name: workload.prompts for workload in self.workloads} or {"all": self.prompts}


class SpeedWorkload(Model):
    """One prompt with the tokens per second that its answer must reach."""

    name: Name = Field(description="a short name")
    prompt: Text = Field(description="the text that is sent")
    min_tok_s: Positive = Field(description="tokens per second, one request at a time, prompt included")


class ThroughputGate(Repeated):
    """Each prompt alone is answered fast enough; tokens are the server's count, seconds wall time."""

    kind: Literal["throughput"]
    via: Via = "chat"
    workloads: Annotated[tuple[SpeedWorkload, ...], Field(min_length=1)] = Field(description="prompts with bars")


class SpeculationGate(Requests):
    """What was generated with drafts is what the model chooses without them.

    A token agrees when it is the model's own first choice, or less than `tolerance` (in nats) behind it. At least
    `min-agreement` of the tokens must; `control-tokens` of each prompt are generated without drafts and judged too.
    """

    kind: Literal["speculation"]
    prompts: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(description="a list of texts")
    tolerance: Annotated[float, Field(strict=True, ge=0)] = 0.0
    min_agreement: Fraction = 1.0
    control_tokens: Annotated[int, Field(strict=True, ge=1, le=256)] = 16


class LongPromptGate(Requests):
    """A prompt that leaves just enough room for its answer is answered, and what comes after it is not harmed.

    `at-most` caps the prompt, in tokens, where a prompt of the whole length would take too long.
    """

    kind: Literal["long-prompt"]
    at_most: Annotated[int, Field(strict=True, ge=64)] | None = None
    then: Text = Field(description="a short prompt whose answer must be the same before and after")


class ToolCallGate(Requests):
    """A request with a tool gets a call of it, parsed: name and arguments, no markup in the text."""

    kind: Literal["tool-call"]
    prompt: Text = Field(description="a text that calls for the tool")
    tool: Text = Field(description="the function's name")
    argument: Text = Field(description="the name of its one argument, a text")
    contains: Text = Field(description="what the argument must hold, in any case")
    template: dict[str, TemplateValue] = Field(default_factory=dict)


class ReasoningGate(Requests):
    """A chat answer comes as reasoning and content, each in its own field and without the model's marks."""

    kind: Literal["reasoning"]
    prompt: Text = Field(description="the text that is sent")
    contains: Text = Field(description="what the content must hold")
    template: dict[str, TemplateValue] = Field(default_factory=dict)


class MetricGate(Judged):
    """A sample of /metrics with these labels exists; with `equals`, each such sample has that value.

    The label value `launched` stands for the patch set that was launched.
    """

    kind: Literal["metric"]
    metric: Text = Field(description="a name as /metrics writes it, such as vllm:num_requests_running")
    labels: dict[str, str] = Field(default_factory=dict)
    equals: Annotated[float, Field(strict=True)] | None = None
    deadline: Seconds = 30.0


class BatchGate(Requests):
    """The prompts give the same text when they are sent together as one at a time, at least this share of them."""

    kind: Literal["batch"]
    min_same: Fraction = 1.0
    prompts: Annotated[tuple[Text, ...], AfterValidator(several)] = Field(description="a list of two texts or more")


class RanksGate(Judged):
    """Every rank runs exactly what was planned; what matches `same` in their logs is equal on all of them."""

    kind: Literal["ranks"]
    same: tuple[Regex, ...] = ()


class MemoryGate(Judged):
    """After loading, each node and each GPU that tells has at least this share of its memory free."""

    kind: Literal["memory"]
    min_free: Fraction = Field(description="of the machine's memory, 0.05 is five per cent")
    min_gpu_free: Fraction = Field(description="of each GPU's memory, where it has its own and tells")


Gate = (
    AnswersGate
    | LogsGate
    | AcceptanceGate
    | MetricGate
    | BatchGate
    | ThroughputGate
    | SpeculationGate
    | LongPromptGate
    | ToolCallGate
    | ReasoningGate
    | RanksGate
    | MemoryGate
)

_KINDS: dict[str, type[Gate]] = {get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(Gate)}
_ANY: TypeAdapter[Gate] = TypeAdapter(Annotated[Gate, Field(discriminator="kind")])


def load_gate(home: Path, name: str) -> Gate:
    """Read the gate NAME of configs/gates/. Errors: as `load_kind`."""
    return load_kind(home, "gates", "gate", name, _KINDS)


def definition(gate: Gate) -> dict[str, Any]:
    """The gate as JSON-able data; `parse` reads it back."""
    return gate.model_dump(mode="json", by_alias=True)


def parse(data: object) -> Gate:
    """Read a gate from plain data. Errors: pydantic.ValidationError."""
    return _ANY.validate_python(data)
