"""Reads a Compose file: YAML, then variables as the specification says."""

import re
from typing import Any

import yaml

from tests.readers.seen import HOME, SECRETS, Seen

_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::\?[^}]*)?\}|(.?))")


def read(text: str) -> Seen:
    return of_service(_interpolated(yaml.safe_load(text))["services"]["vllm"])


def of_service(service: dict[str, Any]) -> Seen:
    """A service whose variables are filled in."""
    mounts = {(it["source"], it["target"], it.get("read_only", False)) for it in service["volumes"]}
    return Seen((*service["entrypoint"], *service["command"]), service["environment"], frozenset(mounts))


def _interpolated(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _interpolated(it) for key, it in value.items()}
    if isinstance(value, list):
        return [_interpolated(it) for it in value]
    return _VARIABLE.sub(_value, value) if isinstance(value, str) else value


def _value(found: "re.Match[str]") -> str:
    assert found[3] is None, f"Compose refuses {found[0]!r}"
    return "$" if found[1] else {"HOME": HOME, **SECRETS}[found[2]]
