"""Starts one background program, waits until it answers, and ends it by the process id that it was started with."""

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from recipe.errors import Refused

_STEP = 0.05


class Background:
    """A program that was started here. `log`: the file with all that it wrote."""

    def __init__(self, argv: Sequence[str], log: Path, variables: Mapping[str, str] | None = None) -> None:
        self.log = log
        self.name = Path(argv[0]).name
        with log.open("ab") as out:
            # Its own session: a Ctrl-C at the terminal reaches only who must end it in order.
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=variables, start_new_session=True
            )
        self.pid = self._process.pid

    def wait(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready` holds. Errors: Refused when the program ended before, or took longer."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self._process.poll() is not None:
                raise Refused(f"{self.name} ended with {self._process.returncode}: {self._last()}", where=str(self.log))
            if time.monotonic() > deadline:
                self.end()
                raise Refused(f"{self.name} was not ready after {seconds:.0f} s: {self._last()}", where=str(self.log))
            time.sleep(_STEP)

    def end(self, seconds: float = 30) -> None:
        """End it, by force when it does not end by itself in time. May be repeated."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return
        self._process.kill()
        self._process.wait()

    def _last(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:]) or "it wrote nothing"
