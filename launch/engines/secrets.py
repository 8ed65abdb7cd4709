"""References to secrets become values here, in the moment a rank starts, and nowhere else."""

import os
from pathlib import Path

from launch.plan.group import GroupPlan
from recipe.errors import HallmarkError, Problem


def resolve(reference: str) -> str:
    """The value of `env:NAME` or `file:PATH` (without its last newline).

    Errors: HallmarkError when the variable is not set or the file cannot be read; it never shows a value.
    """
    kind, _, name = reference.partition(":")
    if kind == "env":
        if name not in os.environ:
            raise HallmarkError(f"the secret {reference} is not set", hint=f"export {name} in this shell")
        return os.environ[name]
    try:
        return Path(name).expanduser().read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        hint = "put one line into that file"
        raise HallmarkError(f"the secret {reference} cannot be read: {error}", hint=hint) from None


def missing(plan: GroupPlan) -> list[Problem]:
    """References of the plan that name nothing here."""
    found: list[Problem] = []
    for reference in sorted({reference for rank in plan.ranks for reference in rank.secrets.values()}):
        try:
            resolve(reference)
        except HallmarkError as error:
            found.extend(error.problems)
    return found
