"""Some nodes on this machine: engines with an sshd each, started together and ended whatever happens."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.engines import engine, ssh
from scripts.engines.network import Namespace


@dataclass(frozen=True)
class Group:
    """Running nodes. `config`: the ssh configuration file that knows `node-1`, `node-2`, …"""

    engines: list[engine.Engine]
    nodes: list[ssh.Node]
    config: Path


@contextmanager
def running(count: int, first: int = 1, networks: Sequence[Namespace] = ()) -> Iterator[Group]:
    """Start `count` nodes with numbers from `first` on, which must be nobody else's, in these namespaces when there are
    some; all of them are ended and everything of theirs is removed at the end."""
    # Short, because the path of a socket may have 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="hallmark-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        engines = []
        for number in range(count):
            network = networks[number] if networks else None
            engines.append(engine.start(first + number, folder / str(first + number), network=network))
            stack.callback(engines[-1].end)
        nodes = []
        for it in engines:
            nodes.append(ssh.start(it, folder / "ssh"))
            stack.callback(nodes[-1].end)
        yield Group(engines, nodes, ssh.configure(nodes, folder / "ssh"))
