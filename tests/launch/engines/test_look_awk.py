"""The look at a rank's processes, on real processes and a real freezer."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from launch.engines.kernel import look_words
from tests.standin.world import until

# Some ticks of the processor first: a start may be shorter than one.
CHILD = """
import subprocess, sys, time
while time.process_time() < 0.05: pass
it = subprocess.Popen(['sleep', '60'])
print(it.pid, flush=True)
it.wait()
"""
ROOT = Path("/sys/fs/cgroup")


def look(pid: int) -> list[str]:
    done = subprocess.run(look_words(pid), check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def rank() -> Iterator[tuple[int, int]]:
    """A process and its child."""
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True) as main:
        assert main.stdout is not None
        child = int(main.stdout.readline())
        yield main.pid, child
        for pid in (child, main.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_rank_that_waits_is_not_held(rank: tuple[int, int]) -> None:
    main, _ = rank
    number, began, ticks, disk, held = look(main)
    assert (int(number), disk, held) == (main, "0", "0")
    assert int(ticks) > 0
    assert look(main)[1] == began


def test_a_child_that_a_signal_stopped_is_named(rank: tuple[int, int]) -> None:
    main, child = rank
    os.kill(child, signal.SIGSTOP)
    until(lambda: look(main)[4] == str(child))
    os.kill(child, signal.SIGCONT)
    until(lambda: look(main)[4] == "0")


def test_of_a_process_that_ended_there_is_no_line(rank: tuple[int, int]) -> None:
    main, child = rank
    os.kill(main, signal.SIGKILL)
    # It is not waited for yet: its number is still there.
    until(lambda: look(main) == [])
    os.kill(child, signal.SIGKILL)


def test_a_process_with_parentheses_and_spaces_in_its_name_is_seen(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        try:
            until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "a) R 1 (b\n")
            number, *_, held = look(process.pid)
            assert (number, held) == (str(process.pid), "0")
        finally:
            process.kill()


@pytest.fixture
def freeze(rank: tuple[int, int]) -> Iterator[Callable[[bool], None]]:
    """Freezes and thaws the rank as a container engine does."""
    name = f"hallmark-tests-{os.getpid()}"
    first = (ROOT / "freezer").is_dir()
    group = ROOT / "freezer" / name if first else ROOT / name
    try:
        group.mkdir()
        for pid in rank:
            (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        pytest.skip(f"no freezer may be made here: {error}")

    def set_(frozen: bool) -> None:
        if first:
            (group / "freezer.state").write_text("FROZEN" if frozen else "THAWED")
        else:
            (group / "cgroup.freeze").write_text("1" if frozen else "0")

    yield set_
    set_(False)
    for pid in rank:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while group.is_dir() and time.monotonic() < deadline:
        with suppress(OSError):
            group.rmdir()


def test_a_rank_whose_container_is_paused_is_frozen(rank: tuple[int, int], freeze: Callable[[bool], None]) -> None:
    main, _ = rank
    freeze(True)
    until(lambda: look(main)[4] == "frozen")
    freeze(False)
    until(lambda: look(main)[4] == "0")
