"""Which rank a node is, and the arguments that make vLLM's ranks one group."""

import ipaddress

from recipe.config.models import Cluster, Profile


def topology(cluster: Cluster, rank: int) -> list[str]:
    """The arguments that only a group of several nodes has; a single node gets none."""
    if len(cluster.nodes) == 1:
        return []
    arguments = ["--nnodes", str(len(cluster.nodes)), "--node-rank", str(rank)]
    arguments += ["--master-addr", str(cluster.nodes[0].fabric), "--master-port", str(cluster.ports.master)]
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


def api_url(profile: Profile, cluster: Cluster) -> str:
    """Where the head answers, as seen from another node of the cluster or from this machine."""
    host, head = profile.serve.get("host"), cluster.nodes[0]
    if not _concrete(host):
        host = head.fabric or ("127.0.0.1" if head.local else _host_of(head.address))
    return f"http://{f'[{host}]' if ':' in str(host) else host}:{cluster.ports.api}"


def _concrete(host: object) -> bool:
    try:
        return not ipaddress.ip_address(str(host)).is_unspecified
    except ValueError:
        return isinstance(host, str)


def _host_of(target: str) -> str:
    host = target.removeprefix("ssh://").rsplit("@", 1)[-1]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host
