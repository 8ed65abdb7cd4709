"""Faults played on the ranks of a stage, each with what happened and how long that took."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from scripts.faults.stage import Stage, until

_WATCH = ("--every", "1", "--limit", "50", "--wait", "0")


@dataclass(frozen=True)
class Row:
    """`seconds` passed from the fault until the group answered again, or until the operator was told."""

    fault: str
    happened: str
    seconds: float
    until: Literal["the group answered", "the operator was told"]


Play = Callable[[Stage, str], Row]


def rows(stage: Stage, say: Callable[[str], None], plays: Sequence[Play]) -> Iterator[Row]:
    """Play these, one after the other, on a group that answers before each."""
    for play in plays:
        # Something else may answer at its port.
        if not stage.pids(0) or not stage.answers():
            stage.done("launch", str(stage.cluster))
        row = play(stage, str(stage.cluster))
        row = replace(row, happened=readable(_short(row.happened, stage.folder)))
        say(f"{row.fault}: {row.happened} ({row.seconds:.1f} s)")
        yield row


def _short(text: str, folder: Path) -> str:
    return re.sub(rf"{re.escape(str(folder))}(?:/[^/\s:]+)*(/[^/\s:]+)", r"…\1", text)


def readable(text: str) -> str:
    """Without what means nothing to others: process ids and moments."""
    text = re.sub(r" \(process \d+\)", "", text)
    text = re.sub(r"\bprocess \d+", "a process", text)
    return re.sub(r" since \d{4}-[\dT:.+-]*\d", "", text)


def _restarted(fault: str, rank: int, title: str | None, number: signal.Signals) -> Play:
    """Something dies or hangs while the group serves, and a watch starts all of it again."""

    def play(stage: Stage, name: str) -> Row:
        before = len(stage.journal())

        def events(kind: str) -> list[dict[str, Any]]:
            return [it for it in stage.journal()[before:] if it["event"] == kind]

        [pid, *_] = stage.pids(rank, title)
        with _watched(stage, name):
            os.kill(pid, number)
            began = time.monotonic()
            found = until(lambda: events("RESTARTING"))
            until(lambda: events("RESTARTED"))
            until(stage.answers)
            seconds = time.monotonic() - began
        reason = events("RESTARTING")[0]["data"]["reason"].splitlines()[0]
        happened = f"`watch` saw it after {found:.1f} s ({reason}); the group was started again"
        return Row(fault, happened, seconds, "the group answered")

    return play


def held(stage: Stage, name: str) -> Row:
    """A worker process is stopped by a signal, asked about, and goes on."""
    [pid, *_] = stage.pids(1, "Worker")
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    status, document = stage.asked("status", name)
    seconds = time.monotonic() - began
    os.kill(pid, signal.SIGCONT)
    until(stage.answers)
    happened = f"`status` ends with {status}: {document['missing']}; once it goes on, the group answers"
    return Row("a worker process is stopped for a moment", happened, seconds, "the operator was told")


def head_ends(stage: Stage, name: str) -> Row:
    """Nobody watches while the head is killed; the group is down then."""
    [pid] = stage.pids(0)
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    until(lambda: not stage.pids(0))
    status, document = stage.asked("status", name)
    seconds = time.monotonic() - began
    lost = document["missing"].split("; ")[0]
    lines = sum(map(len, stage.asked("logs", name, "--node", document["ranks"][0]["name"])[1]["logs"].values()))
    happened = f"`status` ends with {status}: {lost}; `logs` still has what it wrote ({lines} lines)"
    return Row("kill -9 of the head, and nobody watches", happened, seconds, "the operator was told")


def _starting(fault: str, number: signal.Signals) -> Play:
    """A rank dies or hangs while a new group starts: the launch tells within ten seconds, and the old group is back."""

    def play(stage: Stage, name: str) -> Row:
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
        [why] = re.findall(r"was not taken: (rank \d+ \(\S+\) [^(—]*[^(— ])", line)
        what = "the old group is back" if stage.answers() else "nothing answers"
        happened = f"`launch` saw after {found:.1f} s: {why}; exit {command.returncode}, {what}"
        return Row(fault, happened, back, "the group answered")

    return play


def _controller_ends(told: str, *, back: bool) -> Play:
    """A launch is killed at a step; the same command, run again, ends in the new group. `back`: it launches the
    cluster's own profile while the other runs, not the other way round."""

    def play(stage: Stage, name: str) -> Row:
        words = ("launch", name) if back else ("launch", name, "--profile", stage.other)
        command = stage.begin(*words)
        stage.until_told(command, told)
        os.kill(command.pid, signal.SIGKILL)
        stage.rest(command)
        began = time.monotonic()
        ended = stage.done(*words)
        happened = "the same command, run again, brought the old group back and then the new one up"
        if "was left at" not in ended.told:
            happened = "the same command, run again, brought the new group up"
        return Row(f"`launch` is killed at `{told}`", happened, time.monotonic() - began, "the group answered")

    return play


def two_operators(stage: Stage, name: str) -> Row:
    first = stage.begin("launch", name, "--profile", stage.other)
    stage.until_told(first, "preflight")
    # Held, so that it is not done before the second one has begun.
    os.kill(first.pid, signal.SIGSTOP)
    second = stage.run("stop", name)
    os.kill(first.pid, signal.SIGINT)
    os.kill(first.pid, signal.SIGCONT)
    stage.rest(first)
    happened = f"the second ends with {second.status}: {_error(second.told)}; {_answering(stage)}"
    return Row("two operators at once", happened, second.seconds, "the operator was told")


def full_disk(stage: Stage, name: str) -> Row:
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
    happened = f"exit {ended.status}: {_error(ended.told)}; {_answering(stage)}"
    return Row("the disk is full while the environment is staged", happened, ended.seconds, "the operator was told")


def _error(told: str) -> str:
    """The error that a command ended with, without its place and what to do."""
    line = told.strip().splitlines()[-1].removeprefix("hallmark: ").partition(" — ")[0]
    return line.partition(": ")[2] if line.startswith("/") else line


def _answering(stage: Stage) -> str:
    return f"the group that ran {'answers' if stage.answers() else 'does not answer'}"


rank_restarted = _restarted("kill -9 of a headless rank", 1, None, signal.SIGKILL)
worker_restarted = _restarted("kill -9 of a headless rank's worker process", 1, "Worker", signal.SIGKILL)
head_restarted = _restarted("kill -9 of the head", 0, None, signal.SIGKILL)
engine_restarted = _restarted("kill -9 of the head's engine process", 0, "EngineCor", signal.SIGKILL)
held_restarted = _restarted("a worker process is stopped by a signal and hangs", 1, "Worker", signal.SIGSTOP)
start_killed = _starting("kill -9 of a rank that starts", signal.SIGKILL)
start_held = _starting("a rank that starts is stopped by a signal", signal.SIGSTOP)
stopping_killed = _controller_ends("stop revision", back=False)
starting_killed = _controller_ends("start revision", back=True)

# While the group serves, and while it is changed.
SERVING: tuple[Play, ...] = (
    held,
    rank_restarted,
    worker_restarted,
    head_restarted,
    engine_restarted,
    held_restarted,
    head_ends,
)
CHANGING: tuple[Play, ...] = (full_disk, two_operators, start_killed, start_held, stopping_killed, starting_killed)


@contextmanager
def _watched(stage: Stage, name: str) -> Iterator[None]:
    watch = stage.begin("watch", name, *_WATCH)
    stage.until_told(watch, "well")
    try:
        yield
    finally:
        watch.terminate()
        stage.rest(watch)
