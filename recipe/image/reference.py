"""Names of images in registries: host, repository, tag, digest. Pure; asks nobody."""

import re
from dataclasses import dataclass

from recipe.errors import HallmarkError

_DIGEST = r"sha256:[0-9a-f]{64}"
_HOST = re.compile(r"(?=.*[.:])(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_PATH = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_LOOPBACK = re.compile(r"(127(\.[0-9]+){3}|localhost|\[::1\])(:[0-9]+)?")
# Anything else could not be one word of a FROM line.
_NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]*")


@dataclass(frozen=True)
class Reference:
    """An image in a registry. `host`: with its port; `name`: tag or digest, None for the whole repository."""

    host: str
    path: str
    name: str | None = None

    @property
    def repository(self) -> str:
        return f"{self.host}/{self.path}"

    @property
    def loopback(self) -> bool:
        """Whether the registry is on this machine, where plain HTTP is good enough."""
        return loopback(self.host)

    @property
    def port(self) -> int:
        """The registry's port; 80 for a loopback one without."""
        port = self.host.rpartition(":")[2]
        return int(port) if port.isdecimal() else 80 if self.loopback else 443

    def at(self, name: str) -> str:
        """The image of this tag or digest in the repository, as docker writes it."""
        return f"{self.repository}{'@' if ':' in name else ':'}{name}"


def loopback(host: str) -> bool:
    """Whether a host, with or without a port, is this machine."""
    return _LOOPBACK.fullmatch(host) is not None


def remote(text: str) -> Reference | None:
    """Read `HOST/PATH`, `HOST/PATH:TAG` or `HOST/PATH[:TAG]@sha256:HEX`; None for anything else.

    Only what names a registry's host, so that an image that is only here, or a file, is not looked for elsewhere.
    """
    rest, at, digest = text.partition("@")
    if at and not re.fullmatch(_DIGEST, digest):
        return None
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    host, _, folder = head.partition("/")
    path = f"{folder}/{last}" if folder else last
    if not slash or not _HOST.fullmatch(host) or not _PATH.fullmatch(path):
        return None
    if colon and not _TAG.fullmatch(tag):
        return None
    return Reference(host, path, digest or tag or None)


def repository(text: str, where: str | None) -> Reference:
    """A whole repository. Errors: HallmarkError when the text is none."""
    found = remote(text)
    if found is None or found.name is not None:
        hint = "write HOST/PATH, such as registry.example:5000/vllm"
        raise HallmarkError(f"{text!r} is no repository of a registry", where=where, hint=hint)
    return found


def named(text: str, where: str | None = None) -> str:
    """A text that can be the name or digest of an image, whoever has it. Errors: HallmarkError when it cannot."""
    if not _NAMED.fullmatch(text):
        raise HallmarkError(f"{text!r} is not an image reference", where=where, hint="write for example repository:tag")
    return text


def pushed(text: str, where: str) -> str:
    """A whole repository as docker reads it, where one without a host is on Docker Hub. Errors: as `repository`."""
    if "/" not in text or not _PATH.fullmatch(text):
        repository(text, where)
    return text


def tag_of(words: str) -> str:
    """Words as a tag: a local version has a `+`, which no tag may have."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", words)


def certified_tag(profile: str) -> str:
    """The tag that only `certify` moves."""
    return f"{tag_of(profile)}-certified"
