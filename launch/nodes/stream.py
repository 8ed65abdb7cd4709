"""Runs a program on a node that tells how far it is, one line at a time, and is ended with this one."""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from launch.nodes import ssh
from launch.plan.place import Place


@contextmanager
def program(place: Place, argv: Sequence[str], variables: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """The program with its pipes; `variables` are seen on no command line. Its input is closed at the end.

    Errors: Unreachable when a program on another node ends as ssh does when there is no connection.
    """
    words, environment = list(argv), {**os.environ, **variables}
    if not place.local:
        # Not over the shared connection: what is long must not hold up what is short.
        words = ssh.command(place, argv, options=["-o", "ControlPath=none"], variables=bool(variables))
        environment = dict(os.environ)
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    ) as process:
        told: list[str] = []
        assert process.stdin is not None and process.stderr is not None
        reader = threading.Thread(target=lambda: told.extend(process.stderr or ()), daemon=True)
        reader.start()
        if variables and not place.local:
            give(process, ssh.lines(variables))
        try:
            yield process
            process.stdin.close()
            process.wait()
        except BaseException:
            process.terminate()
            raise
        finally:
            reader.join(timeout=5)
    if not place.local and process.returncode == ssh.FAILED:
        raise ssh.failure(place, "".join(told))


def give(process: "subprocess.Popen[str]", text: str) -> None:
    """Write to the program's input, also when it ended before it read all: its status says why."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(text)
        process.stdin.flush()


def follow(
    place: Place, argv: Sequence[str], variables: Mapping[str, str], given: str, hear: Callable[[str], None]
) -> int:
    """Run a program with this input to its end, and hear each line of its output. Returns its status."""
    with program(place, argv, variables) as process:
        assert process.stdout is not None
        give(process, given)
        for line in process.stdout:
            hear(line)
    return process.returncode
