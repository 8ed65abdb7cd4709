"""Shows a plan as shell commands that a person can read and run, one block a node."""

import shlex

from launch.engines.docker import run_parts, words_in_parts
from launch.plan.group import GroupPlan, RankPlan, at_home


def block(rank: RankPlan) -> str:
    """The rank's command over several lines; every word is quoted as `shlex.join` does."""
    return " \\\n  ".join(shlex.join(part) for part in parts(rank))


def parts(rank: RankPlan) -> list[tuple[str, ...]]:
    """The rank's command in the parts that belong on a line together."""
    if rank.container is not None:
        return run_parts(rank)
    variables = [(f"{name}={value}",) for name, value in rank.env.items()]
    return [("env",), *variables, *words_in_parts(rank.argv)]


def script(rank: RankPlan, home: str) -> str:
    """The rank's command as a file of its own; `home` is the home folder on this machine."""
    return f"#!/bin/sh\n{_about(rank)}\nexec {block(_here(rank, home))}\n"


def text(plan: GroupPlan, home: str) -> str:
    """All blocks, each under a line that says which node it is for, or the engine's files; `home` is the home folder on
    this machine."""
    if files := [text for rank in plan.ranks for text in rank.files.values()]:
        return "\n".join(files).rstrip("\n")
    subject = plan.subject
    head = f"# {plan.cluster}: profile {plan.profile}, engine {plan.engine}, {subject.kind} {subject.reference}"
    foot = f"# model {plan.model_name} at {plan.api_url}/v1"
    blocks = [f"{_about(rank)}\n{block(_here(rank, home))}" for rank in plan.ranks]
    return "\n\n".join([head, *blocks, foot])


def _here(rank: RankPlan, home: str) -> RankPlan:
    return at_home(rank, home) if rank.address == "local" else rank


def _about(rank: RankPlan) -> str:
    local = rank.address == "local"
    lines = [f"# {rank.name}: rank {rank.rank}, {'on this machine' if local else f'over SSH to {rank.address}'}"]
    if not local and at_home(rank, "/") != rank:
        lines.append(f"# ~ is the home folder on {rank.name}; write it out to run this by hand")
    lines += [f"# {name} comes from {reference}" for name, reference in rank.secrets.items()]
    return "\n".join(lines)
