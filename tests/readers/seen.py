"""What a rank gets from its engine, read back from what the engine is given."""

from dataclasses import dataclass

from launch.plan.group import RankPlan, at_home

HOME = "/home/somebody"
SECRETS = {"MY_TOKEN": "s3cr$t 'x'"}


@dataclass(frozen=True)
class Seen:
    """Arguments from the program on, variables (secrets with their values), and (source, target, read-only)."""

    argv: tuple[str, ...]
    env: dict[str, str]
    mounts: frozenset[tuple[str, str, bool]]


def planned(rank: RankPlan) -> Seen:
    """What the plan says; `env:MY_TOKEN` is the only secret."""
    here = at_home(rank, HOME)
    secrets = {name: SECRETS[reference.removeprefix("env:")] for name, reference in here.secrets.items()}
    mounts = here.container.mounts if here.container else ()
    return Seen(here.argv, here.env | secrets, frozenset((it.source, it.target, it.read_only) for it in mounts))
