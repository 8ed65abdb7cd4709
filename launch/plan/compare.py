"""In what a group that runs differs from the one that a profile would run, rank by rank."""

from collections.abc import Iterator

from launch.plan.group import GroupPlan, RankPlan
from launch.plan.ranks import words

_PARTS = ("devices", "cap_add", "ulimits", "shm_size", "gpus", "network", "restart", "init", "stop_timeout")


def differences(runs: GroupPlan, planned: GroupPlan) -> list[str]:
    """One line a difference; secrets are named by their variables only. Both plans have containers."""
    wanted = {rank.rank: rank for rank in planned.ranks}
    return [line for rank in runs.ranks if rank.rank in wanted for line in _of_rank(rank, wanted[rank.rank])]


def _of_rank(runs: RankPlan, planned: RankPlan) -> Iterator[str]:
    name = f"rank {runs.rank} ({runs.name})"
    box, other = runs.container, planned.container
    assert box is not None and other is not None
    if runs.place != planned.place:
        yield f"{name}: it runs on {runs.name}, the cluster file has that rank on {planned.name}"
    ours, theirs = (_arguments(list(words(rank.argv))) for rank in (runs, planned))
    yield from (f"{name}: only what runs has the argument {it}" for it in ours if it not in theirs)
    yield from (f"{name}: only the profile has the argument {it}" for it in theirs if it not in ours)
    for variable in sorted({*runs.env, *planned.env, *runs.secrets, *planned.secrets}):
        mine, yours = _value(runs, variable), _value(planned, variable)
        if mine != yours:
            yield f"{name}: the variable {variable} is {mine}, the profile's is {yours}"
    mounted = {it.target: it for it in box.mounts}
    wanted = {it.target: it for it in other.mounts}
    for target in sorted({*mounted, *wanted}):
        sources = [it[target].source if target in it else "nothing" for it in (mounted, wanted)]
        if sources[0] != sources[1]:
            yield f"{name}: {target} is {sources[0]}, the profile's is {sources[1]}"
    for part in _PARTS:
        if (mine := getattr(box, part)) != (yours := getattr(other, part)):
            yield f"{name}: {part.replace('_', '-')} is {mine!r}, the profile's is {yours!r}"
    if box.adopted and box.adopted.options:
        yield f"{name}: only what runs has {', '.join(' '.join(option) for option in box.adopted.options)}"


def _arguments(told: list[str]) -> list[str]:
    """Options with their values, however they were written."""
    parts: list[str] = []
    for word in told:
        if word.startswith("-") or not parts:
            name, equals, value = word.partition("=")
            parts.append(f"{name} {value}" if equals and word.startswith("--") else word)
        else:
            parts[-1] += f" {word}"
    return parts


def _value(rank: RankPlan, name: str) -> str:
    if name in rank.secrets:
        return f"a secret ({rank.secrets[name]})"
    return repr(rank.env[name]) if name in rank.env else "not set"
