"""The flags of a `vllm serve` command by name, as gates ask about them. Pure."""

from collections.abc import Sequence


def serve_flags(argv: Sequence[str]) -> dict[str, str | bool]:
    """Flag (without dashes, with `-` for `_`) → its first value as it is written; True without one, False for `--no-`.

    A flag that is written twice counts as the last one, as for vLLM.
    """
    found: dict[str, str | bool] = {}
    for place, word in enumerate(argv):
        if not word.startswith("--") or word == "--":
            continue
        name, given, value = word[2:].partition("=")
        name = name.replace("_", "-")
        following = argv[place + 1] if place + 1 < len(argv) else "--"
        if given:
            found[name] = value
        elif not following.startswith("--"):
            found[name] = following
        elif name.startswith("no-"):
            found[name.removeprefix("no-")] = False
        else:
            found[name] = True
    return found
