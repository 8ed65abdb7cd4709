"""Who listens on a port of this machine, read from /proc."""

import re
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """A process that listens; `pid` is None when it belongs to another user and cannot be seen."""

    port: int
    pid: int | None
    command: str


def listener(port: int) -> Listener | None:
    """The first process found listening on `port`, on any address; None when the port is free."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        path = Path("/proc/net") / table
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                inodes.add(fields[9])
    if not inodes:
        return None
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and inodes & _sockets(process):
            return Listener(port, int(process.name), _command(process))
    return Listener(port, None, "a process of another user")


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
