"""Watches a group: asks it for tokens, and starts the whole group again when it is lost.

Containers are never told to restart themselves: a rank that comes back alone waits for the others for ever. What is
restarted, and why, is in the journal, so that a limit holds also when the watch itself is started again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from launch.group.backoff import Backoff
from launch.group.journal import Event
from launch.group.transition import STOP_SECONDS, Generation, start
from launch.ledger.work import Work
from launch.nodes.lock import holder, locked, whoami
from recipe.errors import Busy, ConfigError, HallmarkError, NeedsOperator, Refused, Unreachable

# One missed heartbeat may be a long prompt; a rank that is gone is no matter of patience.
MISSES = 3


@dataclass(frozen=True)
class Seen:
    """What one look at a cluster found. `well`: it serves; `paused`: it is not ours to restart; `lost`: for sure;
    `silent`: it gave no token; `unreached`: a node cannot be asked, so nothing can be started either."""

    state: Literal["well", "paused", "lost", "silent", "unreached"]
    reason: str
    generation: Generation | None = None


@dataclass
class Watch:
    """`open` gives the cluster anew for each look: its file may change, and what was read of its records is old."""

    open: Callable[[], Work]
    say: Callable[[str], None]
    every: float = 10.0
    backoff: Backoff = field(default_factory=Backoff)
    restarts: int = 0
    _said: str = ""
    _missed: int = 0

    def run(self) -> None:
        """Watch until this is interrupted. Errors: NeedsOperator when the limit of restarts is reached."""
        while True:
            began = time.monotonic()
            self.round()
            time.sleep(max(0.0, self.every - (time.monotonic() - began)))

    def round(self) -> Seen:
        """Look once, and restart the group when it is lost and may be restarted now."""
        try:
            work = self.open()
            seen = look(work)
        except (Unreachable, ConfigError) as error:
            # A file that is being edited is whole again soon.
            seen = Seen("unreached", str(error))
        self._missed = self._missed + 1 if seen.state == "silent" else 0
        told = f"{seen.state}: {seen.reason}" if seen.reason else seen.state
        if told != self._said:
            # Once, and not every ten seconds for a night.
            self._said = told
            self.say(told)
        if seen.state == "lost" or self._missed >= MISSES:
            assert seen.generation is not None
            try:
                self._restart(work, seen)
            except (Busy, Unreachable) as error:
                self.say(f"not restarted: {error}")
        return seen

    def _restart(self, work: Work, seen: Seen) -> None:
        generation = seen.generation
        assert generation is not None
        number = generation.revision
        _, past = work.look()
        begun = [
            datetime.fromisoformat(it["at"])
            for it in past.restarts
            if it["revision"] == number and it["event"] == Event.RESTARTING.value.lower()
        ]
        wait = self.backoff.wait(begun, datetime.now(UTC))
        if wait is None:
            raise self._give_up(work, number, seen.reason)
        if wait > 0:
            self.say(f"restart of revision {number} in {wait:.0f} s")
            return
        with locked(work.store.lock, f"watch: restart revision {number}"):
            journal, past = work.look()
            if past.running != number or past.unfinished is not None or past.stopping:
                return
            intent = journal.append(Event.RESTARTING, number, reason=seen.reason, who=whoami())
            began = time.monotonic()
            ways = work.ways(journal, number, intent.operation)
            try:
                work.engine.collect(generation.plan, generation.mark, generation.logs)
                with work.clock.step(f"stop what is left of revision {number}", "group"):
                    work.engine.stop(generation.plan, generation.mark, STOP_SECONDS)
                start(ways, generation)
            except (Refused, Unreachable) as error:
                journal.append(Event.NOT_RESTARTED, number, intent.operation, reason=str(error))
                self.say(f"revision {number} was not restarted: {error}")
                return
            seconds = round(time.monotonic() - began, 1)
            journal.append(Event.RESTARTED, number, intent.operation, seconds=seconds)
            self.restarts += 1
            self._missed = 0
            self.say(f"revision {number} answers again after {seconds:.1f} s")

    def _give_up(self, work: Work, number: int, reason: str) -> NeedsOperator:
        limit = f"{self.backoff.limit} restarts in {self.backoff.within / 60:.0f} minutes"
        with locked(work.store.lock, f"watch: give up revision {number}"):
            journal, _ = work.look()
            journal.append(Event.GAVE_UP, number, reason=f"{limit} did not help: {reason}")
        return NeedsOperator(
            f"revision {number} is lost ({reason}), and {limit} did not help; it is not started again",
            hint=f"see `hallmark logs {work.cluster.name}`, then launch or roll back",
        )


def look(work: Work) -> Seen:
    """See how the group is that should run. Errors: Unreachable when the head is not reached."""
    _, past = work.look()
    if past.unfinished is not None:
        held = holder(work.store.lock)
        return Seen("paused", held or f"revision {past.unfinished} is unfinished: launch, rollback or stop ends it")
    if past.running is None:
        return Seen("paused", "nothing is to run")
    if past.stopping:
        return Seen("paused", "a stop has not come to its end: run it again")
    if (held := holder(work.store.lock)) is not None:
        return Seen("paused", held)
    generation = work.generation(past.running)
    looks = work.engine.look(generation.plan, generation.mark)
    for rank in looks:
        if not rank.reached:
            return Seen("unreached", rank.why, generation)
    for rank in looks:
        if not rank.alive or rank.held:
            how = f"hangs: {rank.held}" if rank.alive else "does not run"
            how += f": {rank.why}" if rank.why else ""
            return Seen("lost", f"rank {rank.rank} ({rank.name}) {how}", generation)
    try:
        beat = work.heartbeat(generation)
    except HallmarkError as error:
        # Such as a key that is not set here; it says nothing about the group.
        return Seen("unreached", str(error), generation)
    if not beat.alive:
        return Seen("silent", beat.reason, generation)
    return Seen("well", beat.state, generation)
