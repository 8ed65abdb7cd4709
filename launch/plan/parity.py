"""Proves that the ranks of a plan are one program: vLLM itself does not notice when they are not."""

from launch.plan.group import GroupPlan, RankPlan
from launch.plan.ranks import without_rank


def same_on_every_rank(plan: GroupPlan) -> list[str]:
    """Differences between the head and each other rank where there must be none; empty when all agree.

    Arguments may differ in the rank flags only, variables in those that a node has for itself only.
    """
    head, *others = plan.ranks
    return [difference for other in others for difference in _differences(head, other)]


def _differences(head: RankPlan, other: RankPlan) -> list[str]:
    pair = f"{head.name} and {other.name} differ in"
    found = []
    ours, theirs = without_rank(head.argv), without_rank(other.argv)
    if ours != theirs:
        only = [*(word for word in ours if word not in theirs), *(word for word in theirs if word not in ours)]
        found.append(f"{pair} arguments: {' '.join(only) or 'their order'}")
    own = {*head.own_env, *other.own_env}
    for kind, left, right in (("variable", head.env, other.env), ("secret", head.secrets, other.secrets)):
        for name in sorted({*left, *right} - own):
            if left.get(name) != right.get(name):
                found.append(f"{pair} the {kind} {name}: {left.get(name)!r} and {right.get(name)!r}")
    if (head.container is None) != (other.container is None):
        found.append(f"{pair} the container")
    elif head.container is not None and other.container is not None:
        for part in ("image", "mounts", "devices", "cap_add", "ulimits", "shm_size", "gpus"):
            mine, yours = getattr(head.container, part), getattr(other.container, part)
            if mine != yours:
                found.append(f"{pair} {part}: {mine!r} and {yours!r}")
    return found
