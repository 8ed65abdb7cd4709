"""What kinds of gates share: types of values, requests, repeated runs, log signals, conditions."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from packaging.specifiers import SpecifierSet
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from recipe.config.explain import wrong
from recipe.config.fields import Name, Releases
from recipe.config.models import Model

# Readiness and answers are judged on completions of at least this many tokens (CONTRACT: Launch): a server
# that can make one token has not yet run the decode loop, the drafter or the scheduler.
FEWEST_TOKENS = 10
# A drafter that is never right gives exactly 1; 1.0 to 1.15 is what a drafter on the wrong weights gave
# (stage-d-recipe, section 1). A bar inside that range would pass a collapse.
COLLAPSED_LENGTH = 1.15

SUMMARY = "one line: what a pass means"
# Flags of `vllm serve` without the dashes → their value as it is written there; True for one without a value.
Serve = Mapping[str, str | bool]


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


def several(prompts: tuple[str, ...]) -> tuple[str, ...]:
    """A validator: at least two prompts."""
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
Wanted = Text | Annotated[tuple[Text, ...], Field(min_length=1)] | Annotated[bool, Field(strict=True)] | None
Conditions = dict[str, Wanted]


class Judged(Model):
    """What every gate has. A gate that `needs` a flag is not applicable to a group that runs without it."""

    summary: Text = Field(description=SUMMARY)
    needs: tuple[Text, ...] = Field((), description="flags of `vllm serve`, without dashes, that it is about")

    def applies(self, serve: Serve) -> bool:
        """Whether the group's command has what this gate is about."""
        return all(serve.get(flag) not in (None, False) for flag in self.needs)


class Requests(Judged):
    """What all gates that send completions share. All are greedy (temperature 0)."""

    max_tokens: Tokens = 32
    deadline: Seconds = 120.0  # seconds for one request; a big model's first one may still compile


class Repeated(Requests):
    """Measured until the interval clears or misses its bars: at least `fewest-runs` times, at most `most-runs` times.

    With `most-runs: 1` the one run is taken as it is.
    """

    fewest_runs: Annotated[int, Field(strict=True, ge=1, le=100)] = 1
    most_runs: Annotated[int, Field(strict=True, ge=1, le=100, validate_default=True)] = 1
    confidence: Annotated[float, Field(strict=True, ge=0.8, lt=1)] = 0.95

    @field_validator("most_runs")
    @classmethod
    def _in_order(cls, most: int, info: ValidationInfo) -> int:
        fewest = info.data.get("fewest_runs", most)
        if most < fewest:
            raise wrong(f"{most} is less than fewest-runs {fewest}", "raise it")
        if most > 1 and fewest < 2:
            raise wrong("one run has no spread to judge by", "write fewest-runs 3, or leave most-runs out")
        return most


class Signal(Model):
    """A regular expression searched in each line of each rank's log, without colours and process prefixes.

    It counts for the releases of `versions`, when the group's command has the flags of `when`, and not all those of
    `unless`.
    """

    pattern: Regex = Field(description="a regular expression")
    ranks: Literal["all", "head", "workers"] = "all"
    because: Text = Field(description="what its presence, or its absence when it is required, means")
    versions: Releases | None = None
    when: Conditions = Field(
        default_factory=dict, description="flags with the value, or one of the values, that matters"
    )
    unless: Conditions = Field(default_factory=dict, description="flags with a value that takes the signal away")

    def counts(self, serve: Serve, release: str | None) -> bool:
        """Whether it is judged; with an unknown release it is, so that nothing is passed over in silence."""
        ranges = SpecifierSet(self.versions or "")
        if release is not None and not ranges.contains(release, prereleases=True):
            return False
        if not all(_holds(serve, flag, wanted) for flag, wanted in self.when.items()):
            return False
        return not (self.unless and all(_holds(serve, flag, wanted) for flag, wanted in self.unless.items()))


class RequiredSignal(Signal):
    """Must be seen at least `min-count` times in the log of every rank in scope, and never with a refused value.

    `refused` lists values of the pattern's one group: which backend was chosen, say.
    """

    min_count: Count = 1
    refused: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _one_group(self) -> "RequiredSignal":
        if self.refused and re.compile(self.pattern).groups != 1:
            raise wrong("`refused` lists values of a group, and the pattern has not exactly one", "write one (…) in it")
        return self


class Bars(Model):
    """What speculation must reach: tokens per step, accepted / drafted tokens, accepted / drafts by position."""

    min_mean_length: Annotated[float, Field(strict=True, gt=COLLAPSED_LENGTH)] = Field(
        description="tokens per step, the bonus token included"
    )
    min_rate: Fraction | None = None
    min_per_position: dict[Position, Fraction] = Field(default_factory=dict)


class Workload(Bars):
    """Prompts of one kind with bars of their own, so that an easy kind cannot hide a hard one."""

    name: Name = Field(description="a short name")
    prompts: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(description="a list of texts")


def conditions(signals: tuple[Signal, ...]) -> set[str]:
    """The flags that these signals ask about."""
    return {flag for signal in signals for flag in (*signal.when, *signal.unless)}


def _holds(serve: Serve, flag: str, wanted: Any) -> bool:
    found = serve.get(flag)
    if isinstance(wanted, tuple):
        return found in wanted
    return bool(found == wanted)
