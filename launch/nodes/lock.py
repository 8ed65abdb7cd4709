"""The lock of a cluster on a node: one command at a time changes its group.

The kernel holds it, so it ends with the process that took it; the file's text says who that is.
"""

import fcntl
import getpass
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from recipe.errors import Busy


@contextmanager
def locked(path: Path, why: str) -> Iterator[None]:
    """Hold the lock. Errors: Busy with who holds it, since when and why."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = _owner(os.pread(handle, 4096, 0))
            message = f"the cluster is being changed by {who}"
            raise Busy(message, where=str(path), hint="try again when it is done") from None
        owner = {"who": whoami(), "since": datetime.now(UTC).isoformat(timespec="seconds"), "why": why}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({**owner, "pid": os.getpid()}).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def holder(path: Path) -> str | None:
    """Who holds the lock, since when and why; None when nobody does. Changes nothing."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner(os.pread(handle, 4096, 0))
    finally:
        os.close(handle)
    return None


def whoami() -> str:
    """user@host of this command, for locks and histories."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # Containers run under numbers that have no name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _owner(text: bytes) -> str:
    try:
        owner = json.loads(text)
        return f"{owner['who']} (process {owner['pid']}) since {owner['since']}: {owner['why']}"
    except (ValueError, KeyError, TypeError):
        return "another command that has just begun"
