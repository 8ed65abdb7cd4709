"""Starts one background program, waits until it answers, and ends it by the process id that it was started with.

It ends with all that came of it, also when the process that started it is killed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from recipe.errors import Refused

_STEP = 0.05
_GUARD = Path(__file__).with_name("guard.py")


def end_in_order() -> None:
    """Let SIGTERM and SIGHUP end this process as Ctrl-C does, so that folders and mounts go too.

    Under nohup SIGHUP stays ignored.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)


class Background:
    """A program that was started here. `log`: the file with all that it wrote."""

    def __init__(self, argv: Sequence[str], log: Path, variables: Mapping[str, str] | None = None) -> None:
        self.log = log
        self.name = Path(argv[0]).name
        self._argv, self._variables = argv, variables
        self.again()

    def again(self) -> None:
        """Start it, after it has ended. Errors: Refused."""
        told, descriptor = os.pipe()
        guard = [sys.executable, "-IS", str(_GUARD), str(os.getpid()), str(descriptor)]
        with self.log.open("ab") as out:
            # Its own session: a Ctrl-C at the terminal reaches only who must end it in order.
            self._guard = subprocess.Popen(
                [*guard, *self._argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self._variables,
                start_new_session=True,
                pass_fds=(descriptor,),
            )
        os.close(descriptor)
        with os.fdopen(told, encoding="ascii") as text:
            said = text.read()
        if not said:
            self._guard.wait()
            raise Refused(f"{self.name} was not started: {self._last()}", where=str(self.log))
        self.pid = int(said)

    def kill(self) -> None:
        """End it by force; what came of it ends in order."""
        os.kill(self.pid, signal.SIGKILL)
        self._guard.wait()

    def wait(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready` holds. Errors: Refused when the program ended before, or took longer."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self._guard.poll() is not None:
                raise Refused(f"{self.name} ended with {self._guard.returncode}: {self._last()}", where=str(self.log))
            if time.monotonic() > deadline:
                self.end()
                raise Refused(f"{self.name} was not ready after {seconds:.0f} s: {self._last()}", where=str(self.log))
            time.sleep(_STEP)

    def end(self) -> None:
        """End it, by force when it does not end by itself in 30 s. May be repeated."""
        self._guard.terminate()
        self._guard.wait()

    def _last(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:]) or "it wrote nothing"
