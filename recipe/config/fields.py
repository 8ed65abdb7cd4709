"""Kinds of values in configuration files, each with its own words for what is wrong."""

import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BeforeValidator, Field

from recipe.config.explain import wrong


def matching(pattern: str, what: str, hint: str) -> Callable[[str], str]:
    """A validator for texts: `what` a matching text is, and what to write instead of another."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise wrong(f"{text!r} is not {what}", hint)
        return text

    return check


def _without_password(text: str) -> str:
    # ssh would take it for a part of the user's name; the value itself is not repeated.
    if re.search(r":[^:/@]*@", text):
        raise wrong("has a password before the `@`", "write USER@HOST, and let a key log in")
    return text


def _release(text: str) -> str:
    try:
        Version(text)
    except InvalidVersion:
        raise wrong(f"{text!r} is not a version", 'write a release like "0.33.0", or {fork: NAME}') from None
    return text


def _specifier(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise wrong(f"{text!r} is not a version range", 'write one like ">=0.25,<0.28"') from None
    return text


def _fabric(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        hint = "write the address itself, such as 192.168.177.11; every rank must reach the same one"
        raise wrong(f"{text!r} is not an IP address", hint) from None
    return text


def _env_text(value: Any) -> Any:
    # A whole number is spelled the same in YAML and in the environment; 0.30 and true are not.
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and "\0" in value:
        raise wrong("holds a NUL character", "take it out")
    return value


Text = Annotated[
    str,
    AfterValidator(
        matching(r"[^\x00-\x08\x0a-\x1f\x7f]*\S[^\x00-\x08\x0a-\x1f\x7f]*", "one line of text", "write one")
    ),
]
Name = Annotated[
    str,
    AfterValidator(
        matching(r"[a-z0-9]([a-z0-9.-]{0,50}[a-z0-9])?", "a name", "use a-z, 0-9, `-` and `.`, at most 52 characters")
    ),
]
Interface = Annotated[
    str,
    AfterValidator(
        matching(r"[A-Za-z0-9_.@-]{1,15}", "one network interface", "write one name of `ip link`, such as enp1s0f1np1")
    ),
]
Address = Annotated[
    str,
    AfterValidator(_without_password),
    AfterValidator(
        matching(
            r"(?!-)[A-Za-z0-9_.:@%+/\[\]-]+",
            "an SSH target",
            "write HOST, USER@HOST, a name of your ssh_config, or local",
        )
    ),
]
EnvName = Annotated[
    str, AfterValidator(matching(r"[A-Za-z_][A-Za-z0-9_]*", "a variable's name", "use letters, digits and `_`"))
]
EnvValue = Annotated[str, BeforeValidator(_env_text)]
Env = dict[EnvName, EnvValue]
Count = Annotated[int, Field(strict=True, ge=1)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Switch = Annotated[bool, Field(strict=True)]
Size = Annotated[str, AfterValidator(matching(r"[1-9][0-9]*[bkmg]", "a size", "write a number and a unit: 16g"))]
SlurmWord = Annotated[
    str, AfterValidator(matching(r"[A-Za-z0-9_.,:+-]+", "a word for sbatch", "use letters, digits and `_.,:+-`"))
]
Resource = Annotated[
    str,
    AfterValidator(
        matching(r"([a-z0-9.-]+/)?[A-Za-z0-9._-]+", "a resource's name", "write it as `kubectl describe node` shows it")
    ),
]
Release = Annotated[str, AfterValidator(_release)]
Releases = Annotated[str, AfterValidator(_specifier)]
Fabric = Annotated[str, AfterValidator(_fabric)]
# vLLM itself refuses an API port below 1024.
ApiPort = Annotated[int, Field(strict=True, ge=1024, le=65535)]
Capability = Annotated[
    str, AfterValidator(matching(r"[0-9]+\.[0-9]", "a compute capability", 'write it quoted: "12.1"'))
]
