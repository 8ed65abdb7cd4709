"""Runs one preset against one API and puts everything that it found into one result."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from launch.proof import counters, metrics
from launch.proof.bench import load, prefill, prompts
from launch.proof.bench.figures import Load, Prefill, PromptFigures
from launch.proof.bench.loglines import Logged, logged
from launch.proof.bench.program import Program
from launch.proof.bench.result import Result
from launch.proof.client import ApiError, Client
from launch.proof.metrics import SpecCounts, together
from recipe.config.bench import Preset, PromptsPreset
from recipe.errors import HallmarkError, Unreachable

# vLLM logs every ten seconds; the last interval of ours is in the log by then.
LOG_SECONDS = 15.0
LOG_EVERY = 0.5


@dataclass(frozen=True)
class Subject:
    """What is measured: its API; the served model's name (None: the only one); the vLLM program for loads (None: there
    is none here); a ShareGPT file; the head's log lines (None: they cannot be read); the API's address where the
    program runs, when it is another."""

    url: str
    api_key: str | None
    model: str | None
    program: Program | None
    data: Path | None
    head_log: Callable[[], Sequence[str]] | None
    inside: str | None = None


def bench(subject: Subject, name: str, preset: Preset, say: Callable[[str], None]) -> Result:
    """Run the preset. Errors: Unreachable when the API does not answer at all; HallmarkError; Refused."""
    with Client(subject.url, api_key=subject.api_key) as client:
        try:
            return _bench(client, subject, name, preset, say)
        except ApiError as error:
            raise Unreachable(f"{subject.url}: {error}", hint="is the group running? see `hallmark status`") from None


def _bench(client: Client, subject: Subject, name: str, preset: Preset, say: Callable[[str], None]) -> Result:
    served = client.served(deadline=30)
    model = next((it for it in served if subject.model in (None, it.name)), None)
    if model is None:
        known = ", ".join(it.name for it in served) or "none"
        raise HallmarkError(f"{subject.url} does not serve a model {subject.model!r}", hint=f"it serves: {known}")
    before = _flushed(client, subject.head_log)
    start = metrics.spec_counts(counters.quiet(client))
    found: list[PromptFigures] = []
    lengths: list[Prefill] = []
    figures: Load | None = None
    if isinstance(preset, PromptsPreset):
        found = prompts.run(client, model.name, preset, say)
        lengths = prefill.run(client, model.name, preset.prefill, model.longest, say)
        spoken = [one.spec for one in found if one.spec is not None]
        spec = together(spoken) if spoken else None
    elif subject.program is None:
        raise HallmarkError("there is no vLLM program here to send the load with", hint="name one with --vllm")
    else:
        url = subject.inside or subject.url
        target = load.Target(subject.program, url, model.name, model.root or model.name, subject.data)
        figures, spec = load.run(client, target, preset, subject.api_key, say)
    end = metrics.spec_counts(counters.read(client))
    counted = end.since(start) if start is not None and end is not None else None
    told = _told(subject.head_log, before, counted)
    return Result(
        preset=name,
        url=subject.url,
        model=model.name,
        vllm=_version(client),
        prompts=found,
        prefill=lengths,
        load=figures,
        spec=spec,
        logged=told,
        counted=None if told is None else counted,
        published=preset.published,
    )


def _flushed(client: Client, head_log: Callable[[], Sequence[str]] | None) -> Logged | None:
    """What the log says once it has caught up with the counters; it is behind them by up to ten seconds."""
    counts = metrics.spec_counts(counters.quiet(client))
    if head_log is None or counts is None:
        return None
    return _until(head_log, counts.draft_tokens)


def _told(
    head_log: Callable[[], Sequence[str]] | None, before: Logged | None, counted: SpecCounts | None
) -> Logged | None:
    if head_log is None or before is None or counted is None:
        return None
    return _until(head_log, before.drafted + counted.draft_tokens).since(before)


def _until(head_log: Callable[[], Sequence[str]], drafted: int) -> Logged:
    ends = time.monotonic() + LOG_SECONDS
    while True:
        told = logged(head_log())
        if told.drafted >= drafted or time.monotonic() > ends:
            return told
        time.sleep(LOG_EVERY)


def _version(client: Client) -> str | None:
    try:
        return client.version(deadline=30)
    except ApiError:
        return None
