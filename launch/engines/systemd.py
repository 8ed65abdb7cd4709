"""A systemd unit for one node: a rank on a patched virtual environment, for machines without Docker. Pure."""

from itertools import islice

from launch.engines.docker import words_in_parts
from launch.engines.template import render
from launch.engines.words import systemd
from launch.plan.group import RankPlan

# What a container has as `stop_timeout`: a headless rank takes 11 s to end.
_STOP_SECONDS = 30


def name(cluster: str, rank: RankPlan) -> str:
    """The unit's name; each node has its own."""
    return f"hallmark-{cluster}-r{rank.rank}.service"


def secrets_file(cluster: str) -> str:
    """Where the unit reads secrets from, one NAME=VALUE a line; %h is the home folder."""
    return f"%h/.config/hallmark/{cluster}.env"


def text(cluster: str, rank: RankPlan) -> str:
    """The unit."""
    return render(
        "rank.service.j2",
        cluster=cluster,
        rank=rank,
        unit=name(cluster, rank),
        secrets_file=secrets_file(cluster),
        environment=[_variable(key, value, home=key in rank.homes) for key, value in rank.env.items()],
        program=systemd(_program(rank), command=True, home=True),
        parts=_parts(rank),
        stop_seconds=_STOP_SECONDS,
    )


def _program(rank: RankPlan) -> str:
    # systemd does not look into the unit's PATH.
    folder = rank.env.get("VIRTUAL_ENV", "/usr")
    return rank.argv[0] if "/" in rank.argv[0] else f"{folder}/bin/{rank.argv[0]}"


def _parts(rank: RankPlan) -> list[str]:
    words = (systemd(word, command=True, home=place in rank.homes) for place, word in enumerate(rank.argv))
    return [" ".join(islice(words, len(part))) for part in words_in_parts(rank.argv)]


def _variable(key: str, value: str, *, home: bool) -> str:
    return f'"{key}={systemd(value, command=False, home=home)[1:]}'
