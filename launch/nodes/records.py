"""The records of a cluster: those on the head count, the other nodes have copies, and this machine one to read from.

When the head is this machine, `folder` is the records themselves.
"""

import hashlib
import os
import tarfile
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

from launch.nodes import reach
from launch.nodes.lock import Lock, overtaken
from launch.nodes.shelf import Shelf, pack, unpack
from recipe.config import paths
from recipe.errors import HallmarkError, Mismatch, Refused

JOURNAL = "journal.jsonl"
_OVERTAKEN, _OTHER, _UNWRITTEN = 3, 4, 5


class Records:
    """`folder`: where this machine reads them, and where new files are put, which the next entry takes to the head."""

    def __init__(self, shelves: list[Shelf], say: Callable[[str], None]) -> None:
        self.head, *self._others = shelves
        self._say = say
        self._on_head: dict[str, str] = {}
        self._lines = b""
        # By node, what it was sent; None when it could not be.
        self._sent: dict[str, dict[str, str] | None] = {}
        self.folder = _here(self.head)
        # Of a head that is this machine a copy of the journal is kept apart, which shows what was taken from it.
        self._apart = _apart(self.head) / JOURNAL if self.head.place.local else None

    def refresh(self, lock: Lock) -> None:
        """Read them from the head.

        Errors: Unreachable; Mismatch when they are not a continuation of what was seen from here before, or when they
        are gone while another node has some.
        """
        known = _journal(self.folder)
        if not self.head.place.local:
            self._fetch(known, lock)
        if not _journal(self.folder):
            self._look_elsewhere()

    def seen(self) -> dict[str, bytes]:
        """By its place, the journal as it was read or written last from this machine, kept apart from the head's own;
        empty when the head is another machine: `refresh` compares that."""
        if self._apart is None or not self._apart.is_file():
            return {}
        return {f"this machine ({self._apart})": self._apart.read_bytes()}

    def note(self, content: bytes) -> None:
        """Keep that as what was seen of the journal."""
        if self._apart is not None and len(content) > max(map(len, self.seen().values()), default=0):
            write(self._apart, content)

    def copies(self) -> dict[str, bytes]:
        """By its place, each copy of the journal on another node. A node that is not reached is told of."""
        owner = self.folder / "id"
        if not owner.exists():
            return {}

        def ask(shelf: Shelf) -> bytes | None:
            try:
                return shelf.ask("copied", f"{shelf.name}-{owner.read_text()}").stdout.encode()
            except HallmarkError as error:
                self._say(f"warning: the history is not compared with the copy on node {shelf.place.name}: {error}")
                return None

        found = zip(self._others, reach.each(ask, self._others), strict=True)
        folder = f"copies/{self.head.name}-{owner.read_text()}"
        return {f"{it.place.name} ({it.state}/{folder})": content for it, content in found if content}

    def append(self, size: int, line: bytes, lock: Lock) -> None:
        """Write one line behind the journal's first `size` bytes, durably, with all new files; then send copies.

        Errors: Overtaken without the lock; Refused when it cannot be written; Mismatch when somebody else wrote.
        """
        files = {} if self.head.place.local else self._lacking(self._on_head)
        files.pop(JOURNAL, None)
        given = line.decode() + pack(files)
        words = (str(size), lock.number or "none", str(len(files)))
        done = self.head.ask("append", *words, given=given, expect=(0, _OVERTAKEN, _OTHER, _UNWRITTEN))
        where = f"{self.head.where}/{JOURNAL}"
        if done.returncode == _OVERTAKEN:
            raise overtaken(done.stdout)
        if done.returncode == _OTHER:
            raise Mismatch("somebody else wrote to the journal", where=where, hint="run the command again")
        if done.returncode == _UNWRITTEN:
            why = (done.stderr.strip().splitlines() or ["?"])[-1].rpartition(": ")[2]
            raise Refused(f"the journal cannot be written: {why}", where=where, hint="mend that first")
        if not self.head.place.local:
            self._on_head |= {name: _sha256(content) for name, content in files.items()}
            # Not from the file: another command that only reads may just have put back what it read before.
            self._lines = self._lines[:size] + line
            write(self.folder / JOURNAL, self._lines)
        self._copy()

    def _fetch(self, known: bytes, lock: Lock) -> None:
        _, _, archive = self.head.ask("fetch").stdout.partition("\n")
        try:
            found = unpack(archive)
        except (tarfile.TarError, ValueError, EOFError, OSError) as error:
            raise Refused(f"the records did not arrive whole: {error}", where=self.head.where) from None
        if not found.get(JOURNAL, b"").startswith(known):
            pairs = enumerate(zip_longest(known.splitlines(), found.get(JOURNAL, b"").splitlines()), start=1)
            line = next(number for number, (ours, theirs) in pairs if ours != theirs)
            raise Mismatch(
                f"the journal does not go on from what was seen here before, in {self.folder}: line {line} is another",
                where=f"{self.head.where}/{JOURNAL}",
                hint="find out who changed it; move that folder away to accept what is on the head",
            )
        self._on_head = {name: _sha256(content) for name, content in found.items()}
        self._lines = found.get(JOURNAL, b"")
        for name, content in found.items():
            path = self.folder / name
            if not path.is_file() or path.read_bytes() != content:
                write(path, content)
        # Without the lock, a file that the head lacks may be one that a command here is about to send.
        if lock.number is not None:
            for name in self._files().keys() - found.keys():
                (self.folder / name).unlink()

    def _look_elsewhere(self) -> None:
        """A head without a history, in a cluster that has one, is another head than before or a damaged one."""
        for shelf in self._others:
            copies = shelf.ask("copies").stdout.splitlines()
            if copies:
                raise Mismatch(
                    f"node {self.head.place.name} has no history, but node {shelf.place.name} has {copies[0]}",
                    where=self.head.where,
                    hint="name the node first that was the head, or copy that to the head's folder, or move it away",
                )

    def _copy(self) -> None:
        """Send the other nodes what they lack. One that is not reached is told of once, and gets all the next time."""
        owner = self.folder / "id"
        if not owner.exists():
            # Nothing was ever launched.
            return
        for shelf in self._others:
            name = shelf.place.name
            sent = self._sent.setdefault(name, {})
            if sent is None:
                continue
            files = self._lacking(sent)
            try:
                shelf.ask("copy", f"{shelf.name}-{owner.read_text()}", given=pack(files))
            except HallmarkError as error:
                self._sent[name] = None
                self._say(f"warning: the copy of the history on node {name} lags behind: {error}")
            else:
                sent |= {file: _sha256(content) for file, content in files.items()}

    def _lacking(self, there: dict[str, str]) -> dict[str, bytes]:
        return {name: content for name, content in self._files().items() if there.get(name) != _sha256(content)}

    def _files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and _is_record(path.relative_to(self.folder))
        }


def write(path: Path, content: bytes) -> None:
    """Write a file durably, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Of its own, because another command may bring this machine's copy up to date at the same time.
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def _here(head: Shelf) -> Path:
    return Path(head.state) / "clusters" / head.name if head.place.local else _apart(head)


def _apart(head: Shelf) -> Path:
    apart = hashlib.sha256(f"{head.place.address}\n{head.state}".encode()).hexdigest()[:8]
    return paths.state() / "clusters" / f"{head.name}-{apart}"


def _is_record(path: Path) -> bool:
    # Logs are read from the ranks whenever they are asked for; the lock is of one node.
    return path.parts[0] not in ("logs", "lock") and not any(part.startswith(".") for part in path.parts)


def _journal(folder: Path) -> bytes:
    """The whole lines of the journal that was read last."""
    path = folder / JOURNAL
    content = path.read_bytes() if path.is_file() else b""
    return content[: content.rfind(b"\n") + 1]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
