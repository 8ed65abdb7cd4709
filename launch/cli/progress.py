"""How far long work is: a bar for each node on a terminal, a line now and then elsewhere; always on standard error."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Hear = Callable[[int, int], None]
_EVERY = 30.0


@contextmanager
def bars(say: Callable[[str], None], unit: str) -> Iterator[Callable[[str], Hear]]:
    """Gives `bar(name)`, which gives `hear(done, total)`. `unit`: bytes, or what is counted."""
    if not sys.stderr.isatty():
        yield lambda name: _lines(name, say, unit)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    counted = (DownloadColumn(), TransferSpeedColumn()) if unit == "bytes" else (MofNCompleteColumn(), TextColumn(unit))
    shown = (TextColumn("{task.description}"), BarColumn(), *counted, TimeRemainingColumn())
    with Progress(*shown, console=Console(stderr=True)) as progress:

        def bar(name: str) -> Hear:
            task = progress.add_task(name, total=None)
            return lambda done, total: progress.update(task, completed=done, total=total)

        yield bar


def _lines(name: str, say: Callable[[str], None], unit: str) -> Hear:
    lock = threading.Lock()
    began, first, due = time.monotonic(), -1, 0.0

    def hear(done: int, total: int) -> None:
        nonlocal first, due
        with lock:
            now = time.monotonic()
            if first < 0:
                # What was there already says nothing about the speed.
                first = done
            if now < due and done < total:
                return
            due = now + _EVERY
            rate = (done - first) / max(now - began, 1e-9)
            left = f", {(total - done) / rate / 60:.0f} min left" if rate > 0 and done < total else ""
            say(f"  {name}: {_amount(done, unit)} of {_amount(total, unit)}{left}")

    return hear


def _amount(count: int, unit: str) -> str:
    return f"{count / 1e9:.2f} GB" if unit == "bytes" else f"{count} {unit}"
