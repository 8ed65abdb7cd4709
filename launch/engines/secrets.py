"""References to secrets become values here, in the moment a rank starts, and nowhere else."""

import os
from pathlib import Path

from launch.plan.group import GroupPlan
from recipe.errors import HallmarkError, Problem

# What editors of other systems leave in a file; it would become part of the value that is compared.
_NEVER = {"\r": "a carriage return", "\ufeff": "a byte order mark", "\0": "a NUL character"}

# Requests carry it in a header, as one word.
API_KEY = "VLLM_API_KEY"


def resolve(reference: str, name: str = "") -> str:
    """The value of `env:NAME` or `file:PATH` (without its last newline), for a variable of this `name`.

    Errors: HallmarkError when the variable is not set, the file cannot be read, or the value is none that could be
    meant; it never shows a value.
    """
    kind, _, path = reference.partition(":")
    hint = f"export {path} in this shell" if kind == "env" else "put one line into that file"
    if kind == "env":
        if path not in os.environ:
            raise HallmarkError(f"the secret {reference} is not set", hint=hint)
        value = os.environ[path]
    else:
        try:
            # As it is: other line ends would else become newlines without a word.
            value = Path(path).expanduser().read_bytes().decode("utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise HallmarkError(f"the secret {reference} cannot be read: {error}", hint=hint) from None
    if not value.strip():
        # vLLM takes an empty key for none, and would answer everybody.
        raise HallmarkError(f"the secret {reference} is empty", hint=hint)
    for char, what in _NEVER.items():
        if char in value:
            hint = "save it as plain UTF-8 with Unix line ends"
            raise HallmarkError(f"the secret {reference} holds {what}", hint=hint)
    if name == API_KEY and not (value.isascii() and value.isprintable() and " " not in value):
        hint = "put one word of ASCII letters and digits there, as `openssl rand -hex 24` writes it"
        message = f"the secret {reference} is more than one plain word, so no request can carry it"
        raise HallmarkError(message, hint=hint)
    return value


def missing(plan: GroupPlan) -> list[Problem]:
    """References of the plan that name nothing usable here."""
    found: dict[Problem, None] = {}
    wanted = {(reference, name) for rank in plan.ranks for name, reference in rank.secrets.items()}
    for reference, name in sorted(wanted):
        try:
            resolve(reference, name)
        except HallmarkError as error:
            found.update(dict.fromkeys(error.problems))
    return list(found)
