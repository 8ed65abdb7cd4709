"""Facts about the secrets that a build could give away: what this user's shell, settings and profile hold.

None is a step's to know. They are collected so that it can be proven that none came along.
"""

import base64
import binascii
import json
import netrc
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from recipe.config.rules import is_reference, is_secret

# Anything shorter would be found by chance.
_SHORTEST = 12
# Who logs in with a token in the user's place writes at most so much where a password belongs, such as x.
_FILLER = 3
# Between the slashes and the @ may be marks that elsewhere are an address's end.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^\s/?#\"<>]*@)?[^\s\"'<>,;]+")
# An HTTP header's value, as git, curl and package managers are given one.
_HEADER = re.compile(r"\b(bearer|basic|token)\s+([A-Za-z0-9._~+/=-]+)", re.IGNORECASE)
# What stands in a query for a secret: token=, X-Amz-Signature=, sig=, private_token=, api-key=, key=.
_QUERY = re.compile(
    r"(.*[-_.])?(token|secret|password|passwd|auth|api[-_]?key|access[-_]?key|sig|signature)|key", re.IGNORECASE
)
# Names that say which kind of secret stands beside them. They are everybody's.
_NO_SECRETS = {
    "x-oauth-basic",
    "x-access-token",
    "x-token-auth",
    "oauth2accesstoken",
    "gitlab-ci-token",
    "VssSessionToken",
    "_json_key_base64",
}
_PASSWORD = re.compile(r"\bpassword\s+(\S+)")
_PIP = ("~/.config/pip/pip.conf", "~/.pip/pip.conf", "/etc/pip.conf", "/etc/xdg/pip/pip.conf")


def known(environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets of this shell, of what the profile's references lead to, and of what pip, the model hub and docker
    read by themselves; by the name to call them in a message."""
    found: dict[str, str] = {}
    for name, value in os.environ.items():
        if is_secret(name):
            found[name] = value
        found |= _numbered(name, in_text(value))
    for name, reference in environment.items():
        if is_reference(reference):
            kind, _, where = reference.partition(":")
            found[name] = os.environ.get(where, "") if kind == "env" else _text(Path(where).expanduser())
    for name, secrets in _settings():
        found |= _numbered(name, secrets)
    return {name: value.strip() for name, value in found.items() if len(value.strip()) >= _SHORTEST}


def in_text(text: str) -> list[str]:
    """The secrets in addresses, headers and docker's logins that stand in a text, in their order."""
    found = [secret for match in _ADDRESS.finditer(text) for secret in _in_address(match[0])]
    for match in _HEADER.finditer(text):
        found.append(match[2])
        if match[1].lower() == "basic":
            found += _in_login(match[2])
    found += _in_docker(text)
    return [it for it in dict.fromkeys(found) if len(it) >= _SHORTEST and it not in _NO_SECRETS]


def _in_address(text: str) -> Iterator[str]:
    try:
        address = urlsplit(text)
        query = parse_qsl(address.query)
    except ValueError:
        return
    login, at, _ = address.netloc.rpartition("@")
    user, _, password = login.partition(":")
    # Over SSH the user is only a name.
    if at and ("ssh" not in address.scheme or not _filler(password)):
        yield user if _filler(password) else password
    # As it is written there, and as it is meant.
    written = dict(part.partition("=")[::2] for part in address.query.split("&"))
    for name, value in query:
        if _QUERY.fullmatch(name):
            yield value
            yield written.get(name, value)


def _filler(password: str) -> bool:
    """Whether it stands for nothing, as the token is in the user's place."""
    return len(password) <= _FILLER or password in _NO_SECRETS


def _in_login(packed: str) -> list[str]:
    """The password of USER:PASSWORD in base64."""
    try:
        text = base64.b64decode(packed, validate=True).decode()
    except (binascii.Error, ValueError):
        return []
    user, _, password = text.partition(":")
    return [user if _filler(password) else password]


def _in_docker(text: str) -> list[str]:
    """The logins of docker's config.json, which DOCKER_AUTH_CONFIG may hold too."""
    if '"auths"' not in text:
        return []
    try:
        entries = list(json.loads(text)["auths"].values())
        packed = [str(entry[key]) for entry in entries for key in ("auth", "identitytoken", "password") if key in entry]
    except (ValueError, TypeError, AttributeError, KeyError):
        return []
    return [it for one in packed for it in (one, *_in_login(one))]


def _settings() -> Iterator[tuple[str, list[str]]]:
    """By the file that they are in, the secrets that are used without being named anywhere."""
    docker = Path(os.environ.get("DOCKER_CONFIG") or "~/.docker") / "config.json"
    for it in (docker, *(Path(name) for name in (os.environ.get("PIP_CONFIG_FILE"), *_PIP) if name)):
        yield str(it), in_text(_text(it.expanduser()))
    hub = Path(os.environ.get("HF_TOKEN_PATH") or Path(os.environ.get("HF_HOME") or "~/.cache/huggingface") / "token")
    yield str(hub), [_text(hub.expanduser())]
    logins = Path(os.environ.get("NETRC") or "~/.netrc")
    try:
        hosts = netrc.netrc(logins.expanduser()).hosts
    except OSError:
        return
    except (netrc.NetrcParseError, UnicodeDecodeError):
        # Other programs read such a file all the same.
        yield str(logins), _PASSWORD.findall(_text(logins.expanduser()))
        return
    yield str(logins), [password for _, _, password in hosts.values() if password]


def _numbered(name: str, secrets: list[str]) -> dict[str, str]:
    # Indexes are often listed in one variable.
    return {f"{name} ({at})" if at > 1 else name: it for at, it in enumerate(secrets, 1)}


def _text(path: Path) -> str:
    try:
        # In whatever encoding a user's name beside it may be.
        return path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except (OSError, RuntimeError):
        return ""
