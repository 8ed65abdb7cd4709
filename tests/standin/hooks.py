"""Changes of a `hallmark` in a process of its own, that strike it with a signal at an exact point."""

import os
import signal
from collections.abc import Callable
from typing import Any

from launch.group.journal import Entry, Event, Journal

Hook = Callable[[], None]
Point = Callable[[signal.Signals], Hook]
"""Gives the hook that sends this process such a signal at the point."""


def at_event(event: Event, *, written: bool) -> Point:
    """As the event is journalled: before the write, or after it."""

    def point(number: signal.Signals) -> Hook:
        def hook() -> None:
            real = Journal.append

            def append(self: Journal, wanted: Event, *arguments: Any, **data: Any) -> Entry:
                if wanted is event and not written:
                    os.kill(os.getpid(), number)
                entry = real(self, wanted, *arguments, **data)
                if wanted is event and written:
                    os.kill(os.getpid(), number)
                return entry

            Journal.append = append  # type: ignore[assignment,method-assign]

        return hook

    return point


def at_call(module: object, name: str, *calls: int, after: bool = False) -> Point:
    """At these calls of a function, counted from 1: before it, or after it."""

    def point(number: signal.Signals) -> Hook:
        def hook() -> None:
            real = getattr(module, name)
            count = 0

            def call(*arguments: Any, **named: Any) -> Any:
                nonlocal count
                count += 1
                strikes = count in calls
                if strikes and not after:
                    os.kill(os.getpid(), number)
                result = real(*arguments, **named)
                if strikes and after:
                    os.kill(os.getpid(), number)
                return result

            setattr(module, name, call)

        return hook

    return point
