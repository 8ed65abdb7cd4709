"""Waiting for a group: all ranks alive, and a batch of real completions came back."""

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from launch.engines.base import Engine
from launch.nodes.variables import number
from launch.plan.group import GroupPlan
from recipe.errors import Refused

Probe = Callable[[float], str | None]
"""Asks the group for completions within so many seconds; None when they came back, else what was missing."""

_POLL = 0.05
_TELL_EVERY = 5.0
# vLLM's own default for how long an engine may take to come up.
_READY_SECONDS = 600
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(r"\b\w*(?:Error|Exception)\b|\berror:")
# The head's last line is about its own children; the cause stands above it.
_ELSEWHERE = re.compile(r"[Ss]ee root cause above")


def ready_seconds(plan: GroupPlan) -> float:
    """How long the ranks may take: VLLM_ENGINE_READY_TIMEOUT_S of the plan, which vLLM itself obeys too."""
    return number(plan.ranks[0].env, "VLLM_ENGINE_READY_TIMEOUT_S", _READY_SECONDS)


def wait_until_ready(
    engine: Engine, plan: GroupPlan, group: str, logs: Path, probe: Probe, say: Callable[[str], None]
) -> None:
    """Return when the group answers.

    Errors: Refused when a rank ends before that, or when the time is over; with the end of the log that tells why.
    """
    began = told = time.monotonic()
    look = began
    limit = ready_seconds(plan)
    missing: str | None = "completions do not come back"
    asked: Future[str | None] | None = None
    while True:
        if time.monotonic() >= look:
            for rank in engine.ranks(plan, group):
                if not rank.alive:
                    engine.collect(plan, group, logs)
                    raise Refused(f"rank {rank.rank} ({rank.name}) ended while it started{_why(logs, [rank.name])}")
            look = time.monotonic() + engine.look_seconds
        if asked is not None and asked.done():
            missing = asked.result()
            if missing is None:
                return
            asked = None
        now = time.monotonic()
        if now - began > limit:
            names = [rank.name for rank in plan.ranks]
            engine.collect(plan, group, logs)
            raise Refused(
                f"the group did not answer within {limit:g} s: {missing}{_why(logs, names)}",
                hint="set VLLM_ENGINE_READY_TIMEOUT_S in the profile's env if it needs longer",
            )
        if now - told > _TELL_EVERY:
            told = now
            engine.collect(plan, group, logs)
            say(f"  {now - began:.0f} s, waiting: {last_line(logs / f'{plan.ranks[0].name}.log')}")
        asked = asked or _ask(probe, began + limit - now)
        time.sleep(_POLL)


def _ask(probe: Probe, seconds: float) -> Future[str | None]:
    """Ask in a thread: an answer may take minutes, and a rank that ends or a Ctrl-C must not wait for it."""
    asked: Future[str | None] = Future()

    def ask() -> None:
        try:
            asked.set_result(probe(seconds))
        except Exception as error:
            asked.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return asked


def last_line(log: Path) -> str:
    """The last line of a log that says something, without colours."""
    lines = [line for line in _tail(log) if line.strip()]
    return lines[-1].strip()[:150] if lines else "nothing in the log yet"


def _why(logs: Path, names: list[str]) -> str:
    for name in names:
        log = logs / f"{name}.log"
        errors = [line.strip() for line in _tail(log) if _ERROR.search(line) and not _ELSEWHERE.search(line)]
        if errors:
            return f"\n  {errors[-1][:400]}\n  ({log})"
    if len(names) == 1:
        return f"\n  {last_line(log)}\n  ({log})"
    return f" (logs in {logs})"


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            return _ANSI.sub("", file.read().decode(errors="replace")).splitlines()
    except FileNotFoundError:
        return []
