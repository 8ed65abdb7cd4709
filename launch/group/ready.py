"""Waiting for a group: all ranks alive, and a batch of real completions came back."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from launch.engines.base import Engine
from launch.plan.group import GroupPlan
from recipe.errors import Refused

Probe = Callable[[], str | None]
"""Asks the group for completions; None when it answers, else what was missing."""

_POLL = 0.1
_TELL_EVERY = 5.0
# vLLM's own default for how long an engine may take to come up.
_READY_SECONDS = 600
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def ready_seconds(plan: GroupPlan) -> float:
    """How long the ranks may take: VLLM_ENGINE_READY_TIMEOUT_S of the plan, which vLLM itself obeys too."""
    return float(plan.ranks[0].env.get("VLLM_ENGINE_READY_TIMEOUT_S", _READY_SECONDS))


def wait_until_ready(
    engine: Engine, plan: GroupPlan, group: str, logs: Path, probe: Probe, say: Callable[[str], None]
) -> None:
    """Return when the group answers.

    Errors: Refused when a rank ends before that, or when the time is over; with the end of the log that tells why.
    """
    began = time.monotonic()
    told = began
    while True:
        for rank in engine.ranks(plan, group):
            if not rank.alive:
                raise Refused(f"rank {rank.rank} ({rank.name}) ended while it started{_why(plan, logs)}")
        missing = probe()
        if missing is None:
            return
        now = time.monotonic()
        if now - began > ready_seconds(plan):
            raise Refused(
                f"the group did not answer within {ready_seconds(plan):.0f} s: {missing}{_why(plan, logs)}",
                hint="set VLLM_ENGINE_READY_TIMEOUT_S in the profile's env if it needs longer",
            )
        if now - told > _TELL_EVERY:
            told = now
            say(f"  {now - began:.0f} s, waiting: {last_line(logs / f'{plan.ranks[0].name}.log')}")
        time.sleep(_POLL)


def last_line(log: Path) -> str:
    """The last line of a log that says something, without colours."""
    lines = [line for line in _tail(log) if line.strip()]
    return lines[-1].strip()[:150] if lines else "nothing in the log yet"


def _why(plan: GroupPlan, logs: Path) -> str:
    for rank in plan.ranks:
        log = logs / f"{rank.name}.log"
        errors = [line.strip() for line in _tail(log) if re.search(r"\b\w*(Error|error:|Exception)\b", line)]
        if errors:
            return f"\n  {errors[-1][:400]}\n  ({log})"
    return f" (logs in {logs})"


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            return _ANSI.sub("", file.read().decode(errors="replace")).splitlines()
    except FileNotFoundError:
        return []
