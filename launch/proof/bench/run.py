"""Runs one preset against one API and puts everything that it found into one result."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from launch.proof.bench import load, prefill, prompts
from launch.proof.bench.loglines import Logged, logged
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
    is none here); a ShareGPT file; the head's log lines (None: they cannot be read)."""

    url: str
    api_key: str | None
    model: str | None
    program: str | None
    data: Path | None
    head_log: Callable[[], Sequence[str]] | None


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
    before = logged(subject.head_log()) if subject.head_log else None
    if isinstance(preset, PromptsPreset):
        found = prompts.run(client, model.name, preset, say)
        # The warm-up of each prompt is in the log and not in the figures, so the two are not compared here.
        lengths = prefill.run(client, model.name, preset.prefill, model.longest, say)
        spoken = [one.spec for one in found if one.spec is not None]
        spec = together(spoken) if spoken else None
        return Result(
            name, subject.url, model.name, _version(client), found, lengths, None, spec, None, preset.published
        )
    if subject.program is None:
        raise HallmarkError("there is no vLLM program here to send the load with", hint="name one with --vllm")
    target = load.Target(subject.program, model.name, model.root or model.name, subject.data)
    figures, spec = load.run(client, target, preset, subject.api_key, say)
    told = _told(subject.head_log, before, spec)
    return Result(name, subject.url, model.name, _version(client), [], [], figures, spec, told, preset.published)


def _told(
    head_log: Callable[[], Sequence[str]] | None, before: Logged | None, spec: SpecCounts | None
) -> Logged | None:
    if head_log is None or before is None or spec is None:
        return None
    ends = time.monotonic() + LOG_SECONDS
    while True:
        told = logged(head_log()).since(before)
        if told.drafted >= spec.draft_tokens or time.monotonic() > ends:
            return told
        time.sleep(LOG_EVERY)


def _version(client: Client) -> str | None:
    try:
        return client.version(deadline=30)
    except ApiError:
        return None
