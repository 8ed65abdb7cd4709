"""Changes of a `hallmark` in a process of its own, that strike it at an exact point: with a signal, or as told."""

import os
import signal
from collections.abc import Callable
from typing import Any

from launch.group.journal import Entry, Event, Journal

Hook = Callable[[], None]
Strike = signal.Signals | Callable[[], object]
Point = Callable[[Strike], Hook]
"""Gives the hook that sends this process such a signal at the point, or calls that there."""


def _strike(strike: Strike) -> None:
    if isinstance(strike, signal.Signals):
        os.kill(os.getpid(), strike)
    else:
        strike()


def at_event(event: Event, *, written: bool) -> Point:
    """As the event is journalled: before the write, or after it."""

    def point(strike: Strike) -> Hook:
        def hook() -> None:
            real = Journal.append

            def append(self: Journal, wanted: Event, *arguments: Any, **data: Any) -> Entry:
                if wanted is event and not written:
                    _strike(strike)
                entry = real(self, wanted, *arguments, **data)
                if wanted is event and written:
                    _strike(strike)
                return entry

            Journal.append = append  # type: ignore[assignment,method-assign]

        return hook

    return point


def at_call(module: object, name: str, *calls: int, after: bool = False) -> Point:
    """At these calls of a function, counted from 1: before it, or after it."""

    def point(strike: Strike) -> Hook:
        def hook() -> None:
            real = getattr(module, name)
            count = 0

            def call(*arguments: Any, **named: Any) -> Any:
                nonlocal count
                count += 1
                strikes = count in calls
                if strikes and not after:
                    _strike(strike)
                result = real(*arguments, **named)
                if strikes and after:
                    _strike(strike)
                return result

            setattr(module, name, call)

        return hook

    return point
