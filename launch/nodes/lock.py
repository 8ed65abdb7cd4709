"""The lock of a cluster on its nodes: one command at a time changes its group, from whatever machine.

It is a file on every node that says who holds it, so that it outlives a connection that breaks. Who died on this
machine is found out here and gives way; of another machine nobody can tell, so a person breaks that lock.
"""

import getpass
import json
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from launch.nodes import reach
from launch.nodes.shelf import Shelf
from recipe.errors import Busy, HallmarkError, Unreachable

_ANOTHERS = 3


class Overtaken(Busy):
    """The lock that this command held was broken: whoever did that may be changing the group now."""


@dataclass(frozen=True)
class Owner:
    """Who holds a lock. `host` is a machine through all its boots, `boot` one of them with the processes that are seen
    there; `began` tells a process from every other one that had its number in that boot."""

    number: str
    who: str
    host: str
    boot: str
    pid: int
    began: int
    since: str
    why: str

    @property
    def alive(self) -> bool | None:
        """Whether that process still runs; None when it is not of this machine."""
        if self.boot == _boot():
            return _began(self.pid) == self.began
        # A container has the same kernel and host, and sees other processes.
        rebooted = self.host == _host() and self.boot.split()[:1] != _boot().split()[:1]
        return False if rebooted else None

    def __str__(self) -> str:
        return f"{self.who} (process {self.pid}) since {self.since}: {self.why}"


class Lock:
    """The lock on all nodes of a cluster, the head first. `number`: by which this command's is known, while held."""

    def __init__(self, shelves: list[Shelf]) -> None:
        self.number: str | None = None
        # Nodes without it, by name, because they were not reached: only of a lock that was taken where it could be.
        self.unreached: dict[str, str] = {}
        self._shelves = shelves
        self._taken: list[Shelf] = []

    def owners(self) -> dict[str, Owner]:
        """Who holds it, by node; changes nothing."""
        found = reach.each(lambda shelf: _owner(shelf.ask("owner").stdout), self._shelves)
        return {shelf.place.name: owner for shelf, owner in zip(self._shelves, found, strict=True) if owner}

    def head(self) -> Owner | None:
        """Who holds it on the head; changes nothing."""
        return _owner(self._shelves[0].ask("owner").stdout)

    @property
    def head_reached(self) -> bool:
        return self._shelves[0].place.name not in self.unreached

    def take(self, why: str, over: Mapping[str, Owner] | None = None, *, partly: bool = False) -> None:
        """Take it on every node; from those of `over` also while they live. `partly`: on those that are reached.

        Errors: Busy with who holds it; Unreachable; it is taken nowhere then.
        """
        began = _began(os.getpid())
        assert began is not None
        since = datetime.now(UTC).isoformat(timespec="seconds")
        mine = Owner(secrets.token_hex(8), whoami(), _host(), _boot(), os.getpid(), began, since, why)

        def take(shelf: Shelf) -> None:
            # Noted before: when the answer is lost, it may be taken.
            self._taken.append(shelf)
            try:
                _take(shelf, mine, (over or {}).get(shelf.place.name))
            except Unreachable as error:
                if not partly:
                    raise
                self.unreached[shelf.place.name] = str(error)

        self.unreached = {}
        try:
            # The head decides between two commands that begin at the same time.
            take(self._shelves[0])
            reach.each(take, self._shelves[1:])
        except BaseException:
            self.number = mine.number
            self.release()
            raise
        self.number = mine.number

    def release(self) -> None:
        """Give it back where this command has it. A node that is not reached keeps it, with an owner who is gone."""
        number, self.number = self.number, None
        if number is not None:
            with suppress(HallmarkError):
                reach.each(lambda shelf: shelf.ask("release", number), self._taken)
        self._taken = []


@contextmanager
def locked(lock: Lock, why: str, *, partly: bool = False) -> Iterator[None]:
    """Hold the lock. Errors: Busy with who holds it, since when and why; Unreachable, unless `partly`."""
    lock.take(why, partly=partly)
    try:
        yield
    finally:
        lock.release()


def holder(lock: Lock) -> str | None:
    """Who holds the lock on the head, since when and why; None when nobody does who still lives."""
    owner = lock.head()
    return None if owner is None or owner.alive is False else str(owner)


def whoami() -> str:
    """user@host of this command, for locks and histories."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # Containers run under numbers that have no name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def overtaken(told: str) -> Overtaken:
    """The error of a command that no longer holds its lock; `told` is what the node says of its owner now."""
    owner = _read("", told)
    by = f" by {owner}" if owner else ""
    return Overtaken(f"the lock was broken{by}; this command does nothing more", hint="see hallmark status")


def _take(shelf: Shelf, mine: Owner, over: Owner | None) -> None:
    values = asdict(mine)
    del values["number"]
    given = json.dumps(values) + "\n"
    while True:
        number = over.number if over else ""
        done = shelf.ask("take", mine.number, number, given=given, expect=(0, _ANOTHERS))
        if done.returncode == 0:
            return
        owner = _owner(done.stdout)
        assert owner is not None, "the script shows who has it"
        if owner.alive is not False or owner == over:
            raise _busy(shelf, owner)
        over = owner


def _busy(shelf: Shelf, owner: Owner) -> Busy:
    hint = "try again when it is done"
    if owner.alive is None:
        hint += f"; if that process is gone, `hallmark lock break {shelf.name}`"
    return Busy(f"the cluster is being changed by {owner}", where=shelf.where, hint=hint)


def _owner(text: str) -> Owner | None:
    number, _, told = text.partition("\n")
    return _read(number, told) if text else None


def _read(number: str, told: str) -> Owner | None:
    """An owner from a line of the file; one that says nothing is somebody, of whom nothing is known."""
    try:
        return Owner(number=number, **json.loads(told))
    except (ValueError, TypeError):
        return Owner(number, "somebody", "", "", 0, 0, "an unknown time", told.strip()[:80]) if number else None


def _host() -> str:
    """This machine; its name alone may be that of many."""
    path = Path("/etc/machine-id")
    number = path.read_text().strip() if path.is_file() else secrets.token_hex(8)
    return f"{socket.gethostname()} {number}"


def _boot() -> str:
    """This boot, and the processes that are seen from here: a container's have numbers of their own."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"


def _began(pid: int) -> int | None:
    """When a process began, in ticks since the boot; None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may have spaces and parentheses.
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])
