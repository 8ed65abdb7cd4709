"""A Compose file for one node: the docker engine's container of a rank, for people who run Compose there. Pure."""

from typing import Any

from launch.engines.words import compose, document, shell
from launch.plan.container import Mount
from launch.plan.group import RankPlan


def name(rank: RankPlan) -> str:
    """The file's name among those of the group."""
    return f"{rank.rank}-{rank.name}.compose.yaml"


def text(rank: RankPlan) -> str:
    """The file. Secrets are asked of the shell in which Compose is run."""
    box = rank.container
    assert box is not None
    service: dict[str, Any] = {
        "container_name": compose(box.name),
        "image": compose(box.image),
        "entrypoint": [compose(rank.argv[0])],
        "command": [compose(word) for word in rank.argv[1:]],
        "environment": {
            **{name: compose(value) for name, value in rank.env.items()},
            **{name: _secret(name, reference) for name, reference in rank.secrets.items()},
        },
        "network_mode": box.network,
        "restart": box.restart,
        "init": box.init,
        "stop_grace_period": f"{box.stop_timeout}s",
        "shm_size": box.shm_size,
        "labels": {key: compose(value) for key, value in box.labels.items()},
        "volumes": [_volume(mount) for mount in box.mounts],
    }
    if box.devices:
        service["devices"] = [f"{device}:{device}" for device in box.devices]
    if box.cap_add:
        service["cap_add"] = list(box.cap_add)
    if box.ulimits:
        service["ulimits"] = dict(box.ulimits)
    if box.gpus:
        wanted = {"driver": "nvidia", "count": box.gpus, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [wanted]}}}
    return _about(rank) + document({"services": {"vllm": service}})


def _volume(mount: Mount) -> dict[str, Any]:
    # What makes missing folders has another name and default in every Compose, so that the file leaves it out.
    return {
        "type": "bind",
        "source": compose(mount.source, home=True),
        "target": compose(mount.target),
        "read_only": mount.read_only,
    }


def _secret(name: str, reference: str) -> str:
    kind, _, source = reference.partition(":")
    variable = source if kind == "env" else name
    return f"${{{variable}:?it is not set in this shell}}"


def _about(rank: RankPlan) -> str:
    assert rank.container is not None
    folders = [shell(mount.source, home=True) for mount in rank.container.mounts if not mount.read_only]
    lines = [
        f"# {rank.name}: rank {rank.rank}. Workers first:",
        f"#   mkdir -p -- {' '.join(folders)}",
        f"#   docker compose -f {name(rank)} up --detach",
    ]
    for variable, reference in rank.secrets.items():
        if reference.startswith("file:"):
            lines.append(f"# {variable} is the line in {reference.removeprefix('file:')}; export it before")
    return "".join(f"{line}\n" for line in lines)
