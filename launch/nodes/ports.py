"""Who listens on a port of this machine, read from /proc."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"
_INODE = 9


@dataclass(frozen=True)
class Listener:
    """A process that listens; `pid` is None when it belongs to another user and cannot be seen."""

    port: int
    pid: int | None
    command: str


def listener(port: int) -> Listener | None:
    """The first process found listening on `port`, on any address; None when the port is free."""
    tables = (Path("/proc/net") / table for table in ("tcp", "tcp6"))
    text = "".join(path.read_text() for path in tables if path.exists())
    inodes = {fields[_INODE] for found, fields in _listeners(text) if found == port}
    if not inodes:
        return None
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and inodes & _sockets(process):
            return Listener(port, int(process.name), _command(process))
    return Listener(port, None, "a process of another user")


def _listeners(tables: str) -> Iterator[tuple[int, list[str]]]:
    for line in tables.splitlines():
        fields = line.split()
        # The heads of the tables have words there.
        if len(fields) > _INODE and fields[3] == _LISTEN:
            yield int(fields[1].rsplit(":", 1)[1], 16), fields


def _sockets(process: Path) -> set[str]:
    found = set()
    try:
        for descriptor in (process / "fd").iterdir():
            if match := re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink())):
                found.add(match[1])
    except OSError:
        pass
    return found


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:100]
    except OSError:
        return "?"
