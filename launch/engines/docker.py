"""The docker engine's command line for one rank. Pure: nothing is run here."""

from launch.plan.group import RankPlan


def run_argv(rank: RankPlan) -> tuple[str, ...]:
    """The whole `docker run` command of a rank that has a container.

    Secrets are passed by name: their values must be in the environment of the docker program.
    """
    return tuple(word for part in run_parts(rank) for word in part)


def run_parts(rank: RankPlan) -> list[tuple[str, ...]]:
    """The command in the parts that belong together, an option with its value each."""
    box = rank.container
    assert box is not None, "the process engine has no containers"
    host = ("--host", rank.docker_host) if rank.docker_host else ()
    parts: list[tuple[str, ...]] = [("docker", *host, "run", "--detach"), ("--name", box.name)]
    if box.init:
        parts.append(("--init",))
    parts += [("--network", box.network), ("--restart", box.restart), ("--stop-timeout", str(box.stop_timeout))]
    if box.gpus:
        parts.append(("--gpus", box.gpus))
    parts.append(("--shm-size", box.shm_size))
    parts += [("--device", device) for device in box.devices]
    parts += [("--cap-add", capability) for capability in box.cap_add]
    parts += [("--ulimit", f"{kind}={limit}") for kind, limit in box.ulimits.items()]
    parts += [("--label", f"{key}={value}") for key, value in box.labels.items()]
    parts += [("--mount", mount.option) for mount in box.mounts]
    parts += box.adopted.options if box.adopted else ()
    parts += [("--env", f"{key}={value}") for key, value in rank.env.items()]
    parts += [("--env", key) for key in rank.secrets]
    parts += [("--entrypoint", rank.argv[0]), (box.image,)]
    return [*parts, *words_in_parts(rank.argv[1:])]


def words_in_parts(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Arguments in parts: a new part begins at each one that starts with a dash."""
    parts: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not parts:
            parts.append([word])
        else:
            parts[-1].append(word)
    return [tuple(part) for part in parts]
