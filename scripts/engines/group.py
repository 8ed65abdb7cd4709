"""Some nodes on this machine: engines with an sshd each, started together and ended whatever happens."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.engines import engine, ssh


@dataclass(frozen=True)
class Group:
    """Running nodes. `config`: the ssh configuration file that knows `node-1`, `node-2`, …"""

    engines: list[engine.Engine]
    nodes: list[ssh.Node]
    config: Path


@contextmanager
def running(count: int) -> Iterator[Group]:
    """Start `count` nodes; all of them are ended and everything of theirs is removed at the end."""
    # Short, because the path of a socket may have 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="hallmark-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        engines = []
        for number in range(1, count + 1):
            engines.append(engine.start(number, folder / str(number)))
            stack.callback(engines[-1].end)
        nodes = []
        for it in engines:
            nodes.append(ssh.start(it, folder / "ssh"))
            stack.callback(nodes[-1].end)
        yield Group(engines, nodes, ssh.configure(nodes, folder / "ssh"))
