"""`guard.py PARENT DESCRIPTOR ARGV…`: runs a program until it ends, SIGTERM comes or PARENT is gone; then ends all that
came of it, such as the jobs of a slurmd and the connections of an sshd.

Who starts a program may be killed, and then ends nothing itself. The program's process id is written to DESCRIPTOR.
"""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_AWAITED = {signal.SIGCHLD, signal.SIGTERM}
_STEP = 0.25
_PATIENCE = 30.0


def main(parent: int, descriptor: int, argv: list[str]) -> int:
    """Run the program; returns its exit status, as a shell gives it."""
    # Whatever loses its parent becomes a child of this process, whoever started it.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    os.set_inheritable(descriptor, False)
    program = os.posix_spawnp(argv[0], argv, os.environ, setsigmask=())
    os.write(descriptor, str(program).encode())
    os.close(descriptor)
    code = None
    while code is None and os.getppid() == parent and not _asked():
        code = _reap().get(program)
    if code is None:
        code = _ended(program)
    _end_rest()
    return code


def _asked() -> bool:
    """Wait a moment, at most until a child ends; whether this process was asked to end."""
    found = signal.sigtimedwait(_AWAITED, _STEP)
    return found is not None and found.si_signo == signal.SIGTERM


def _ended(program: int) -> int:
    """End the program, which may have to end others first; what takes longer is ended with the rest."""
    os.kill(program, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        _asked()
        if (code := _reap().get(program)) is not None:
            return code
    os.kill(program, signal.SIGKILL)
    return 128 + signal.SIGKILL


def _end_rest() -> None:
    deadline = time.monotonic() + _PATIENCE
    asked: set[int] = set()
    while left := _descendants(os.getpid()):
        forced = time.monotonic() > deadline
        for pid in left if forced else set(left) - asked:
            # It may have ended since.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if forced else signal.SIGTERM)
        asked.update(left)
        _asked()
        _reap()


def _reap() -> dict[int, int]:
    """The exit status of each child that has ended since."""
    found: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(ended[1])
            found[ended[0]] = code if code >= 0 else 128 - code
    return found


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *_descendants(child)]
    return found


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
