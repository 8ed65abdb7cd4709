"""Faults played on the ranks of a stage, each with what happened and how long that took."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from scripts.faults.stage import Stage, until

_WATCH = ("--every", "1", "--limit", "50", "--wait", "0")


@dataclass(frozen=True)
class Row:
    """`seconds` passed from the fault until the group answered again, or until the operator was told."""

    fault: str
    happened: str
    seconds: float
    until: Literal["the group answered", "the operator was told"]


Play = Callable[[Stage, str], Iterator[Row]]


def rows(stage: Stage, say: Callable[[str], None], plays: Sequence[Play]) -> Iterator[Row]:
    """Play these, one after the other, on a group that answers before each."""
    stage.done("launch", str(stage.cluster))
    for play in plays:
        for row in play(stage, str(stage.cluster)):
            row = replace(row, happened=row.happened.replace(str(stage.folder), "…"))
            say(f"{row.fault}: {row.happened} ({row.seconds:.1f} s)")
            yield row


def _lost(stage: Stage, name: str) -> Iterator[Row]:
    """What dies or hangs while the group serves: status tells, and a watch starts all of it again."""
    faults: tuple[tuple[str, int, str | None, signal.Signals], ...] = (
        ("kill -9 of a headless rank", 1, None, signal.SIGKILL),
        ("kill -9 of a headless rank's worker process", 1, "Worker", signal.SIGKILL),
        ("kill -9 of the head", 0, None, signal.SIGKILL),
        ("kill -9 of the head's engine process", 0, "EngineCor", signal.SIGKILL),
        ("a worker process is stopped by a signal and hangs", 1, "Worker", signal.SIGSTOP),
    )
    for fault, rank, title, number in faults:
        before = len(stage.journal())
        [pid, *_] = stage.pids(rank, title)
        with _watched(stage, name):
            os.kill(pid, number)
            began = time.monotonic()

            def told(event: str, since: int = before) -> bool:
                return any(it["event"] == event for it in stage.journal()[since:])

            found = until(lambda: told("RESTARTING"))
            until(lambda: told("RESTARTED"))
            until(stage.answers)
            seconds = time.monotonic() - began
        reason = next(it["data"]["reason"] for it in stage.journal()[before:] if it["event"] == "RESTARTING")
        yield Row(
            fault,
            f"`watch` saw it after {found:.1f} s ({reason.splitlines()[0][:150]}); the group was started again",
            seconds,
            "the group answered",
        )


def _starting(stage: Stage, name: str) -> Iterator[Row]:
    """What dies or hangs while a new group starts: the launch tells within ten seconds, and the old group is back."""
    for fault, number in (
        ("kill -9 of a rank that starts", signal.SIGKILL),
        ("a rank that starts is stopped by a signal", signal.SIGSTOP),
    ):
        command = stage.begin("launch", name, "--profile", stage.starting)
        stage.until_told(command, "start revision")
        until(lambda: stage.pids(1))
        os.kill(stage.pids(1)[0], number)
        began = time.monotonic()
        # It says that it stops the new group as soon as it knows.
        stage.until_told(command, "stop revision")
        found = time.monotonic() - began
        told = stage.rest(command)
        back = time.monotonic() - began
        [line, *_] = [it for it in told.splitlines() if it.startswith("hallmark: ")]
        yield Row(
            fault,
            f"`launch` saw it after {found:.1f} s ({line[10:130]}…), exit {command.returncode}, the old group is back",
            back,
            "the group answered",
        )


def _killed_controller(stage: Stage, name: str) -> Iterator[Row]:
    """A launch is killed at a step; the next command ends in the new group."""
    for told in ("stop revision", "start revision"):
        command = stage.begin("launch", name, "--profile", stage.other)
        stage.until_told(command, told)
        os.kill(command.pid, signal.SIGKILL)
        stage.rest(command)
        began = time.monotonic()
        ended = stage.done("launch", name, "--profile", stage.other)
        happened = "the same command, run again, brought the old group back and then the new one up"
        if "was left at" not in ended.told:
            happened = "the same command, run again, brought the new group up"
        yield Row(f"`launch` is killed at `{told}`", happened, time.monotonic() - began, "the group answered")
        if told == "stop revision":
            stage.done("launch", name)


def _two_operators(stage: Stage, name: str) -> Iterator[Row]:
    first = stage.begin("launch", name)
    stage.until_told(first, "preflight")
    # Held, so that it is not done before the second one has begun.
    os.kill(first.pid, signal.SIGSTOP)
    second = stage.run("stop", name)
    os.kill(first.pid, signal.SIGCONT)
    stage.rest(first)
    happened = f"the second ends with {second.status}: {second.told.strip().splitlines()[-1][10:160]}"
    yield Row("two operators at once", happened, second.seconds, "the operator was told")


def _full_disk(stage: Stage, name: str) -> Iterator[Row]:
    """The folder of the patched environments is on a file system without room."""
    folder = stage.folder / "state" / "envs"
    aside = folder.with_name("envs-aside")
    folder.rename(aside)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=4", "hallmark", str(folder)], check=True)
    try:
        ended = stage.run("launch", name, "--profile", stage.other)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()
        aside.rename(folder)
    line = ended.told.strip().splitlines()[-1][10:160]
    happened = f"exit {ended.status}: {line}; the group that ran {'answers' if stage.answers() else 'does not answer'}"
    yield Row("the disk is full while the environment is staged", happened, ended.seconds, "the operator was told")


# While the group serves, and while it is changed.
SERVING: tuple[Play, ...] = (_lost,)
CHANGING: tuple[Play, ...] = (_starting, _killed_controller, _two_operators, _full_disk)


@contextmanager
def _watched(stage: Stage, name: str) -> Iterator[None]:
    watch = stage.begin("watch", name, *_WATCH)
    stage.until_told(watch, "well")
    try:
        yield
    finally:
        watch.terminate()
        stage.rest(watch)
