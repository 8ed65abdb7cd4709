"""What a command spends its time on: the ranks' own starts and stops, and everything else, which is our cost."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Step:
    """One step. `of` is "group" while ranks start or stop, "tool" otherwise; seconds of wall time."""

    name: str
    of: Literal["group", "tool"]
    seconds: float


@dataclass
class Clock:
    """Collects steps and tells each as it begins."""

    say: Callable[[str], None]
    steps: list[Step] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    @contextmanager
    def step(self, name: str, of: Literal["group", "tool"] = "tool") -> Iterator[None]:
        self.say(name)
        began = time.monotonic()
        try:
            yield
        finally:
            self.steps.append(Step(name, of, round(time.monotonic() - began, 3)))

    def group_seconds(self) -> float:
        return round(sum(step.seconds for step in self.steps if step.of == "group"), 3)

    def tool_seconds(self) -> float:
        """All of the time since the clock was made that was not the ranks' own."""
        return round(time.monotonic() - self._began - self.group_seconds(), 3)
