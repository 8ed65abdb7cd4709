"""Reads the words of `docker run`."""

import csv

from launch.engines.docker import run_argv
from launch.plan.group import RankPlan, at_home
from tests.readers.seen import HOME, SECRETS, Seen


def read(rank: RankPlan) -> Seen:
    words = list(run_argv(at_home(rank, HOME)))
    words = words[words.index("run") + 1 :]
    env, mounts, program = dict[str, str](), set[tuple[str, str, bool]](), ""
    while words[0].startswith("-"):
        option = words.pop(0)
        if option in ("--detach", "--init"):
            continue
        value = words.pop(0)
        if option == "--env":
            name, equals, text = value.partition("=")
            env[name] = text if equals else SECRETS[rank.secrets[name].removeprefix("env:")]
        elif option == "--mount":
            [fields] = csv.reader([value])
            said = dict(field.partition("=")[::2] for field in fields)
            mounts.add((said["source"], said["target"], "readonly" in said))
        elif option == "--entrypoint":
            program = value
    return Seen((program, *words[1:]), env, frozenset(mounts))
