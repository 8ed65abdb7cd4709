"""Which rank a node is, and the arguments that make vLLM's ranks one group."""

import ipaddress
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from recipe.config.models import Cluster, Profile

# vLLM's own.
MASTER_PORT = 29501


def topology(cluster: Cluster, rank: int) -> list[str]:
    """The arguments that only a group of several nodes has; a single node gets none."""
    if len(cluster.nodes) == 1:
        return []
    arguments = ["--nnodes", str(len(cluster.nodes)), "--node-rank", str(rank)]
    head = cluster.nodes[0]
    # Without an address the head is only known where the ranks run; the name stands for it in the plan.
    arguments += ["--master-addr", head.fabric or head.name, "--master-port", str(cluster.ports.master)]
    return arguments if rank == 0 else [*arguments, "--headless"]


def without_rank(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments without those in which ranks may differ."""
    kept: list[str] = []
    skip = False
    for argument in argv:
        if skip or argument == "--headless":
            skip = False
        elif argument == "--node-rank":
            skip = True
        else:
            kept.append(argument)
    return tuple(kept)


def words(argv: Sequence[str]) -> list[str]:
    """The words of a command, also of one that is given to a shell as one text."""
    shell = PurePosixPath(argv[0]).name in ("sh", "bash", "dash") if argv else False
    for place, word in enumerate(argv):
        if shell and word.startswith("-") and word.endswith("c") and place + 1 < len(argv):
            try:
                return shlex.split(argv[place + 1], comments=True)
            except ValueError:
                return list(argv)
    return list(argv)


def flag(argv: Sequence[str], *names: str) -> str | None:
    """The value of an option in `words`, written as `--x V` or `--x=V`; the last one counts, as for vLLM."""
    found = None
    for place, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") in names:
            found = value if equals else argv[place + 1] if place + 1 < len(argv) else None
    return found


def model(argv: Sequence[str]) -> str | None:
    """The model that is served: the value of --model, else the word before the first flag."""
    told = words(argv)
    named = flag(told, "--model")
    first = next((place for place, word in enumerate(told) if word.startswith("-")), len(told))
    if named is not None or first == 0 or told[first - 1] == "serve":
        return named
    return told[first - 1]


def api_url(profile: Profile, cluster: Cluster) -> str:
    """Where the head answers, as seen from another node of the cluster or from this machine."""
    host, head = profile.serve.get("host"), cluster.nodes[0]
    if not concrete(host):
        host = head.fabric or (
            head.name if cluster.allocated else "127.0.0.1" if head.local else _host_of(head.address)
        )
    return f"http://{f'[{host}]' if ':' in str(host) else host}:{cluster.ports.api}"


def concrete(host: object) -> bool:
    """Whether a server told to listen there has one address only."""
    try:
        return not ipaddress.ip_address(str(host)).is_unspecified
    except ValueError:
        return isinstance(host, str)


def _host_of(target: str) -> str:
    host = target.removeprefix("ssh://").rsplit("@", 1)[-1]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host
