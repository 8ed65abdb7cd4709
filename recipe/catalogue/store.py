"""Keeps files of released wheels, each content once by its sha256, in one database of the cache.

A wheel is 300 MB, its Python files compress to 10, and neighbouring releases share most of them.
"""

import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from recipe.applier.manifest import sha256
from recipe.errors import Busy, HallmarkError, Mismatch, Refused

_SCHEMA = """
create table if not exists blob (digest text primary key, data blob not null);
create table if not exists file (wheel text, path text, digest text not null, primary key (wheel, path)) without rowid;
"""
# Another process may be harvesting.
_PATIENCE_S = 120.0


class Store:
    """Files by the sha256 of their wheel and their path. Every use opens the database for itself.

    Errors: Mismatch when it is damaged, Refused when it cannot be written, Busy when another command holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self, wheel: str) -> dict[str, str]:
        """path → sha256 of the files of a wheel that are kept; empty for a wheel that was not harvested."""
        with self._open() as database:
            return dict(database.execute("select path, digest from file where wheel = ?", [wheel]).fetchall())

    def put(self, wheel: str, archive: zipfile.ZipFile, names: Iterable[str]) -> None:
        """Keep these members of a wheel, all or none."""
        with self._open() as database:
            known = {digest for (digest,) in database.execute("select digest from blob")}
            for name in names:
                data = archive.read(name)
                digest = sha256(data)
                if digest not in known:
                    known.add(digest)
                    database.execute("insert or ignore into blob values (?, ?)", [digest, zlib.compress(data, 6)])
                database.execute("insert or replace into file values (?, ?, ?)", [wheel, name, digest])

    def get(self, digest: str) -> bytes:
        """The content with this sha256. Errors: Mismatch when the database was damaged."""
        try:
            with self._open() as database:
                (packed,) = database.execute("select data from blob where digest = ?", [digest]).fetchone()
            data = zlib.decompress(packed)
        except (TypeError, sqlite3.DatabaseError, zlib.error):
            data = None
        if data is None or sha256(data) != digest:
            raise Mismatch(
                "the cache of sources is damaged", where=str(self.path), hint="delete this file, then repeat"
            )
        return data

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE_S)) as database, database:
                database.executescript(_SCHEMA)
                yield database
        except sqlite3.DatabaseError as error:
            raise _told(error, self.path) from None


def _told(error: sqlite3.DatabaseError, path: Path) -> HallmarkError:
    """Only of a damaged database it helps to delete it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    where, message = str(path), f"the cache of sources cannot be used: {error}"
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        hint = "make room or give the right to write, or name another folder with HALLMARK_CACHE"
        return Refused(message, where=where, hint=hint)
    if code == sqlite3.SQLITE_BUSY:
        return Busy(message, where=where, hint="try again when the other command is done")
    return Mismatch(message, where=where, hint="delete this file, then repeat")
