"""Rules about a cluster file, and about a profile on a cluster: each with its reason and a severity."""

import ipaddress
from collections import Counter
from collections.abc import Iterator

from recipe.config.findings import File, Finding, finding
from recipe.config.load import Loaded
from recipe.config.models import Cluster, Profile
from recipe.config.rules import loopback, variables
from recipe.config.source import Loc


def cluster_rules(cluster: Loaded[Cluster]) -> Iterator[Finding]:
    """Findings about a cluster file by itself."""
    yield from ports_differ(cluster)
    yield from names_differ(cluster)
    yield from fabric(cluster)
    yield from engine(cluster)
    yield from remote_paths(cluster)
    for index, node in enumerate(cluster.value.nodes):
        yield from variables(cluster, node.env, ("nodes", index, "env"))


def pair_rules(profile: Loaded[Profile], cluster: Loaded[Cluster]) -> Iterator[Finding]:
    """Findings about a profile on a cluster."""
    wanted, there = profile.value.nodes, len(cluster.value.nodes)
    if wanted != there:
        yield finding(
            "error",
            cluster,
            ("nodes",),
            f"{there} node{'s' * (there != 1)}, but profile {profile.name} needs {wanted}",
            why="every node runs one part of the group",
            hint=f"list {wanted}, or choose another profile",
        )
    host, head = profile.value.serve.get("host"), cluster.value.nodes[0]
    if loopback(host) and not head.loopback:
        yield finding(
            "warning",
            cluster,
            ("nodes", 0, "address"),
            f"profile {profile.name} serves at {host} on {head.name}",
            why="no other machine reaches that, so nothing here can ask whether the group answers",
            hint="write another `host` into its serve flags, or run hallmark on that node with `address: local`",
        )
    ports = cluster.value.ports
    for file, env, loc in _environments(profile, cluster):
        if env.get("VLLM_PORT") in (str(ports.api), str(ports.master)):
            yield finding(
                "error",
                file,
                (*loc, "VLLM_PORT"),
                f"{env['VLLM_PORT']} is the cluster's API or master port",
                why="vLLM takes its internal ports from there upwards",
                hint="take it out, or write a port apart from both",
            )
        for name in sorted({"VLLM_HOST_IP", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA"} & env.keys()):
            if file is profile and wanted > 1:
                yield finding(
                    "warning",
                    file,
                    (*loc, name),
                    "is the same for all nodes here",
                    why="addresses and interface names differ between nodes",
                    hint="write it with each node of the cluster file",
                )


def _environments(profile: Loaded[Profile], cluster: Loaded[Cluster]) -> Iterator[tuple[File, dict[str, str], Loc]]:
    yield profile, profile.value.env, ("env",)
    for index, node in enumerate(cluster.value.nodes):
        yield cluster, node.env, ("nodes", index, "env")


def ports_differ(cluster: Loaded[Cluster]) -> Iterator[Finding]:
    """The API and the meeting point of the ranks are both open on the head."""
    ports = cluster.value.ports
    if len(cluster.value.nodes) > 1 and ports.api == ports.master:
        yield finding(
            "error",
            cluster,
            ("ports", "master"),
            f"{ports.master} is the API's port too",
            why="the head opens both",
            hint="write another port",
        )


def names_differ(cluster: Loaded[Cluster]) -> Iterator[Finding]:
    """A node's name stands for it in messages, files and labels."""
    count = Counter(node.name for node in cluster.value.nodes)
    for index, node in enumerate(cluster.value.nodes):
        if count[node.name] > 1 and index:
            yield finding(
                "error",
                cluster,
                ("nodes", index, "name"),
                f"{node.name!r} is a second node's name",
                why="messages and locks name nodes",
                hint="write another name",
            )


def fabric(cluster: Loaded[Cluster]) -> Iterator[Finding]:
    """Every rank reaches every other by the fabric addresses; the head's is the master address."""
    nodes = cluster.value.nodes
    if len(nodes) == 1:
        return
    seen: dict[str, str] = {}
    inside = [node.fabric is not None and ipaddress.ip_address(node.fabric).is_loopback for node in nodes]
    for index, node in enumerate(nodes):
        loc: Loc = ("nodes", index, "fabric")
        if node.fabric is None and cluster.value.allocated:
            continue
        if node.fabric is None:
            yield finding(
                "error",
                cluster,
                loc,
                f"node {node.name} has none",
                why="the ranks meet at fabric addresses",
                hint="add the node's address on the network between the nodes",
            )
            continue
        address = ipaddress.ip_address(node.fabric)
        if node.fabric in seen:
            yield finding(
                "error",
                cluster,
                loc,
                f"{node.fabric} is {seen[node.fabric]}'s address too",
                why="each rank is found by its own",
                hint=f"write the address of {node.name}",
            )
        seen.setdefault(node.fabric, node.name)
        if address.is_unspecified or address.is_multicast:
            yield finding(
                "error",
                cluster,
                loc,
                f"{node.fabric} is no machine's address",
                why="the other ranks connect to it",
                hint=f"write the address that {node.name} has on the network between the nodes",
            )
        elif address.is_loopback and not (all(inside) and all(other.loopback for other in nodes)):
            yield finding(
                "error",
                cluster,
                loc,
                f"{node.fabric} is loopback",
                why="on every other machine it is that machine itself, and the ranks would wait for each other",
                hint="write real addresses; loopback is for nodes that are all this machine",
            )
        elif address.is_link_local:
            yield finding(
                "warning",
                cluster,
                loc,
                f"{node.fabric} is link-local",
                why="it may be another one after a restart",
                hint="give the interface a fixed address",
            )


def engine(cluster: Loaded[Cluster]) -> Iterator[Finding]:
    """Some engines run a virtual environment of the nodes, others have no use for one; one is for this machine only."""
    value = cluster.value
    if value.bare and value.paths.venv is None:
        yield finding(
            "error",
            cluster,
            ("paths", "venv"),
            "is missing",
            why=f"the {value.engine} engine runs a patched copy of an installed vLLM",
            hint="add the virtual environment's name or path",
        )
    if not value.bare and value.paths.venv is not None:
        yield finding(
            "warning",
            cluster,
            ("paths", "venv"),
            f"is not used by the {value.engine} engine",
            why="it runs images",
            hint="take it out",
        )
    for index, node in enumerate(value.nodes):
        if value.engine == "process" and not node.local:
            yield finding(
                "error",
                cluster,
                ("nodes", index, "address"),
                f"{node.address} with the process engine",
                why="it starts processes of this machine",
                hint="write `address: local`, or choose `engine: docker`",
            )


def remote_paths(cluster: Loaded[Cluster]) -> Iterator[Finding]:
    """A path relative to this file means nothing on another machine."""
    if all(node.local for node in cluster.value.nodes):
        return
    for key in ("state", "cache", "models"):
        text = getattr(cluster.value.paths, key)
        if text is not None and not text.startswith(("/", "~")):
            yield finding(
                "error",
                cluster,
                ("paths", key),
                f"{text!r} is relative",
                why="it is a folder on the nodes, not beside this file",
                hint="write an absolute path, or one that starts with `~/`",
            )
