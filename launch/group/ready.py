"""Waiting for a group: all ranks alive, and a batch of real completions came back."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TypeVar

from launch.engines.base import Engine, Look
from launch.group.liveness import Liveness
from launch.group.logs import collected, read
from launch.nodes.variables import number
from launch.plan.group import GroupPlan
from launch.plan.logs import RankLog, plain
from launch.plan.stages import stages
from recipe.errors import HallmarkError, Refused

Probe = Callable[[float], str | None]
"""Asks the group for completions within so many seconds; None when they came back, else what was missing."""

_POLL = 0.05
_TELL_EVERY = 5.0
# vLLM's own default for how long an engine may take to come up.
_READY_SECONDS = 600
T = TypeVar("T")


def ready_seconds(plan: GroupPlan) -> float:
    """How long the ranks may take: VLLM_ENGINE_READY_TIMEOUT_S of the plan, which vLLM itself obeys too."""
    return number(plan.ranks[0].env, "VLLM_ENGINE_READY_TIMEOUT_S", _READY_SECONDS)


def wait_until_ready(
    engine: Engine,
    plan: GroupPlan,
    group: str,
    logs: Path,
    probe: Probe,
    why: Callable[[], str],
    say: Callable[[str], None],
) -> None:
    """Return when the group answers. `why` tells from the logs, once they are there, what went wrong first.

    Errors: Refused when a rank ends, hangs or is cut off before that, or when the time is over.
    """
    began = told = looked = time.monotonic()
    limit = ready_seconds(plan)
    missing: str | None = "completions do not come back"
    asked: Future[str | None] | None = None
    alive = Liveness(plan, began)
    look = partial(engine.look, plan, group)
    looking: Future[list[Look]] | None = _begin(look)
    telling: Future[list[RankLog]] | None = None
    said: set[str] = set()

    def written() -> list[RankLog]:
        try:
            return collected(engine, plan, group, logs)
        except (OSError, HallmarkError) as error:
            # Such as a full disk here, which says nothing about the ranks and must not hide what is known of them.
            line = f"  warning: the logs cannot be brought here: {error}"
            if line not in said:
                said.add(line)
                say(line)
            return read(plan, logs, ())

    while True:
        now = time.monotonic()
        if looking is not None and looking.done():
            alive.feed(looking.result(), now)
            looking, looked = None, now
        if looking is None and now - looked >= engine.look_seconds:
            looking = _begin(look)
        if lost := alive.lost(now):
            # At once: to ask a node for its logs that is cut off takes longer than it took to find that out.
            say(f"  {now - began:.0f} s, {lost}")
            found = written()
            if "ended" not in lost:
                far = stages(found)
                alive.read(far, time.monotonic())
                lost += f" ({missing}){_table([*far.lines(), *alive.stays(now), *alive.remarks()])}"
            raise Refused(f"{lost}{why()}")
        if asked is not None and asked.done():
            missing = asked.result()
            if missing is None:
                return
            asked = None
        if now - began > limit:
            far = stages(written())
            alive.read(far, now)
            raise Refused(
                f"the group did not answer within {limit:g} s: {missing}"
                f"{_table([*far.lines(), *alive.stays(now), *alive.remarks()])}{why()}",
                hint="set VLLM_ENGINE_READY_TIMEOUT_S in the profile's env if it needs longer",
            )
        if telling is None and now - told > _TELL_EVERY:
            # Beside the looks, which must go on when a node does not give its logs.
            telling, told = _begin(written), now
        if telling is not None and telling.done():
            found, telling = telling.result(), None
            far = stages(found)
            alive.read(far, now)
            where = "; ".join(f"{node} {stage or 'silent'}" for node, stage in far.nodes.items())
            say(f"  {now - began:.0f} s, waiting ({where}): {last_line(logs / f'{plan.ranks[0].name}.log')}")
            for line in (*alive.remarks(), *alive.lagging(now)):
                # Once, however long it goes on.
                about = line.partition(" for ")[0]
                if about not in said:
                    said.add(about)
                    say(f"  {now - began:.0f} s, {line}")
        if asked is None:
            asked = _begin(partial(probe, began + limit - now))
        time.sleep(_POLL)


def _begin(ask: Callable[[], T]) -> Future[T]:
    """Ask in a thread: an answer may take minutes, and a rank that ends or a Ctrl-C must not wait for it."""
    asked: Future[T] = Future()

    def run() -> None:
        try:
            asked.set_result(ask())
        except Exception as error:
            asked.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return asked


def _table(lines: list[str]) -> str:
    return "".join(f"\n  {line}" for line in lines)


def last_line(log: Path) -> str:
    """The last line of a log that says something, without colours."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            lines = [plain(line).strip() for line in file.read().decode(errors="replace").splitlines()]
    except FileNotFoundError:
        lines = []
    return next((line[:150] for line in reversed(lines) if line), "nothing in the log yet")
