"""References to secrets become values here, in the moment a rank starts, and nowhere else."""

import os
from pathlib import Path

from launch.plan.group import GroupPlan
from recipe.errors import HallmarkError, Problem

# What editors of other systems leave in a file; it would become part of the value that is compared.
_NEVER = {"\r": "a carriage return", "\ufeff": "a byte order mark", "\0": "a NUL character"}


def resolve(reference: str) -> str:
    """The value of `env:NAME` or `file:PATH` (without its last newline).

    Errors: HallmarkError when the variable is not set, the file cannot be read, or the value is none that could be
    meant; it never shows a value.
    """
    kind, _, name = reference.partition(":")
    hint = f"export {name} in this shell" if kind == "env" else "put one line into that file"
    if kind == "env":
        if name not in os.environ:
            raise HallmarkError(f"the secret {reference} is not set", hint=hint)
        value = os.environ[name]
    else:
        try:
            # As it is: other line ends would else become newlines without a word.
            value = Path(name).expanduser().read_bytes().decode("utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise HallmarkError(f"the secret {reference} cannot be read: {error}", hint=hint) from None
    if not value.strip():
        # vLLM takes an empty key for none, and would answer everybody.
        raise HallmarkError(f"the secret {reference} is empty", hint=hint)
    for char, what in _NEVER.items():
        if char in value:
            hint = "save it as plain UTF-8 with Unix line ends"
            raise HallmarkError(f"the secret {reference} holds {what}", hint=hint)
    return value


def missing(plan: GroupPlan) -> list[Problem]:
    """References of the plan that name nothing here."""
    found: list[Problem] = []
    for reference in sorted({reference for rank in plan.ranks for reference in rank.secrets.values()}):
        try:
            resolve(reference)
        except HallmarkError as error:
            found.extend(error.problems)
    return found
