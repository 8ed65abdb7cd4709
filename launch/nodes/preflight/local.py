"""What is only true of this machine, where the process engine runs its ranks."""

import shutil

from launch.nodes.preflight.site import Found, Verdict
from launch.plan.group import GroupPlan


def program(plan: GroupPlan) -> list[Found]:
    """The program of the ranks is installed."""
    head = plan.ranks[0]
    if head.container is not None or shutil.which(head.argv[0], path=head.env.get("PATH")):
        return []
    where = f"{plan.subject.venv}/bin" if plan.subject.venv else None
    message = f"there is no program {head.argv[0]!r}"
    return [Found("program", None, Verdict.FAIL, message, "install vLLM into that virtual environment", where)]
