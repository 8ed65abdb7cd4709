"""From one generation of a group to the next: the new one answers and passes its trial, or the old one is back.

Each event is journalled before the act that follows it, so that `recover` can finish what a killed command began.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.engines.base import Engine
from launch.group.clock import Clock
from launch.group.journal import Event
from launch.group.ready import Probe, wait_until_ready
from launch.nodes.lock import Overtaken
from launch.plan.group import GroupPlan
from recipe.errors import HallmarkError, NeedsOperator, Refused, Unreachable

# vLLM gives its workers 5 s, then 4 s after SIGTERM; a headless rank was seen to take 11.
STOP_SECONDS = 30.0
# A group that answered before is warm: what takes longer than this is no answer.
WARM_SECONDS = 60.0


@dataclass(frozen=True)
class Generation:
    """A revision as it runs: its plan, the mark that its ranks carry, and where they log."""

    revision: int
    plan: GroupPlan
    mark: str
    logs: Path


@dataclass(frozen=True)
class Ways:
    """How a transition reaches the world: the engine, the journal, and the questions it asks of a group."""

    engine: Engine
    record: Callable[..., Any]
    probe: Callable[[Generation], Probe]
    why: Callable[[Generation], str]
    clock: Clock


def switch(
    ways: Ways,
    old: Generation | None,
    new: Generation,
    *,
    stage: Callable[[], None],
    trial: Callable[[], list[str]],
) -> float | None:
    """Bring up `new` in place of `old`; returns for how many seconds nothing answered (None without an old group).

    `stage` journals the INTENT and prepares what `new` needs while `old` still serves; `trial` gives the reasons
    against `new`.
    Errors: Refused when `new` is not taken and what was before holds again; NeedsOperator when it does not; Overtaken.
    """
    try:
        with ways.clock.step(f"stage revision {new.revision}"):
            stage()
            ways.record(Event.STAGED)
            if old is not None:
                _all_reached(ways, new)
    except BaseException as error:
        # Unwritten, the revision is as unfinished as with it.
        with suppress(Unreachable):
            ways.record(Event.RESTORED, reason=_reason(error))
        if isinstance(error, (KeyboardInterrupt, OSError, Unreachable)):
            kind = Unreachable if isinstance(error, Unreachable) else Refused
            raise kind(f"revision {new.revision} was not taken: {_reason(error)} — nothing was touched") from None
        raise
    silent_since = time.monotonic()
    try:
        if old is not None:
            with ways.clock.step(f"stop revision {old.revision}", "group"):
                ways.engine.stop(old.plan, old.mark, STOP_SECONDS)
        ways.record(Event.STOPPED)
        start(ways, new)
        answered = time.monotonic()
        ways.record(Event.STARTED)
        with ways.clock.step(f"trial gates of revision {new.revision}"):
            reasons = trial()
        if reasons:
            raise Refused("; ".join(reasons))
        ways.record(Event.COMMITTED)
    except Overtaken:
        # Whoever broke the lock decides now; two that act at the same time would leave neither group.
        raise
    except BaseException as error:
        restore(ways, old, new, _reason(error))
        if not isinstance(error, (HallmarkError, KeyboardInterrupt, OSError)):
            raise
        raise _refused(new, old, _reason(error), time.monotonic() - silent_since) from None
    return round(answered - silent_since, 3) if old is not None else None


def restore(ways: Ways, old: Generation | None, new: Generation, reason: str) -> None:
    """Take `new` away and bring `old` back, unless it never went away.

    Errors: NeedsOperator when that fails, with the state of every rank.
    """
    try:
        with ways.clock.step(f"stop revision {new.revision}", "group"):
            ways.engine.stop(new.plan, new.mark, STOP_SECONDS)
        if old is not None and not _serves(ways, old):
            with ways.clock.step(f"clear what is left of revision {old.revision}", "group"):
                ways.engine.stop(old.plan, old.mark, STOP_SECONDS)
            start(ways, old)
    except BaseException as error:
        why, nodes = _reason(error), _seen(ways, [it for it in (new, old) if it is not None])
        with suppress(HallmarkError):
            ways.record(Event.NEEDS_OPERATOR, reason=why, nodes=nodes)
        what = f"revision {old.revision} could not be brought back" if old else "it could not be taken down"
        first = "" if reason == why else f" ({reason})"
        raise NeedsOperator(
            f"revision {new.revision} failed{first} and {what}: {why}; {'; '.join(nodes)}",
            hint="mend the cause and run the command again, or `hallmark stop`",
        ) from None
    ways.record(Event.RESTORED, reason=reason)


def start(ways: Ways, generation: Generation) -> None:
    """Start every rank and wait until the group answers. Errors: Refused."""
    with ways.clock.step(f"start revision {generation.revision}", "group"):
        ways.engine.start(generation.plan, generation.mark, generation.logs)
        wait_until_ready(
            ways.engine,
            generation.plan,
            generation.mark,
            generation.logs,
            ways.probe(generation),
            lambda: ways.why(generation),
            ways.clock.say,
        )


def _all_reached(ways: Ways, new: Generation) -> None:
    """Errors: Unreachable, before the ranks on the other nodes are stopped for nothing."""
    for look in ways.engine.look(new.plan, new.mark):
        if not look.reached:
            raise Unreachable(look.why)


def _serves(ways: Ways, generation: Generation) -> bool:
    ranks = ways.engine.ranks(generation.plan, generation.mark)
    return all(rank.alive for rank in ranks) and ways.probe(generation)(WARM_SECONDS) is None


def _seen(ways: Ways, generations: Sequence[Generation]) -> list[str]:
    """By node, which ranks of these run, also where another node cannot be asked."""
    found: dict[str, list[str]] = {}
    for it in generations:
        try:
            looks = ways.engine.look(it.plan, it.mark)
        except HallmarkError as error:
            return [f"what runs is not known: {error}"]
        for look in looks:
            runs = found.setdefault(look.name, [])
            if not look.reached:
                found[look.name] = ["is not reached"]
            elif look.alive:
                runs.append(f"rank {look.rank} of revision {it.revision} runs")
    return [f"{name}: {', '.join(dict.fromkeys(what)) or 'no rank runs'}" for name, what in found.items()]


def _refused(new: Generation, old: Generation | None, reason: str, silent: float) -> Refused:
    now = (
        f"revision {old.revision} is back and answers; nothing answered for up to {silent:.1f} s"
        if old
        else "nothing runs, as before"
    )
    return Refused(f"revision {new.revision} was not taken: {reason} — {now}")


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) or type(error).__name__
