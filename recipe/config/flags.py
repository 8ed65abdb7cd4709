"""Turns a mapping of serve flags into arguments, one list element each; no shell is involved."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

# vLLM reads the value of a dotted flag as JSON first and as a size (1k, 80g) next; only then it is text.
_SIZE = re.compile(r"-?[0-9][0-9._]*[A-Za-z]?")


def flags(serve: Mapping[str, Any]) -> list[str]:
    """The arguments for `serve`, in its order.

    true → `--x`; false → `--no-x`; null → nothing; a list → the flag once, then its values; a mapping → one JSON
    argument; a dotted key → `--k.x=JSON`.
    """
    return [argument for flag, value in serve.items() for argument in _flag(flag, value)]


def compact(value: object) -> str:
    """JSON without blanks, as it stands in one argument."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _flag(flag: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    if "." in flag:
        yield f"--{flag}={_dotted(value)}"
    elif value is True:
        yield f"--{flag}"
    elif value is False:
        yield f"--no-{flag}"
    elif isinstance(value, list):
        yield f"--{flag}"
        yield from (_scalar(item) for item in value)
    elif (text := _scalar(value)).startswith("-"):
        # argparse would take a value that begins with a dash for the next flag.
        yield f"--{flag}={text}"
    else:
        yield f"--{flag}"
        yield text


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _dotted(value: Any) -> str:
    return value if isinstance(value, str) and not _reads_as_other(value) else compact(value)


def _reads_as_other(text: str) -> bool:
    if _SIZE.fullmatch(text):
        return True
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
