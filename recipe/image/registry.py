"""A registry's repository, asked over its HTTP API: manifests, small blobs, tags. No layer of an image is fetched.

Plain HTTP is used for a registry on this machine's loopback only.
"""

import hashlib
import json
import re
import ssl
from base64 import b64encode
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recipe.errors import Mismatch, Refused, Unreachable
from recipe.image.credentials import login
from recipe.image.inspect import Image, of_config
from recipe.image.reference import Reference, loopback

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFESTS = (OCI_MANIFEST, "application/vnd.docker.distribution.manifest.v2+json")
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_LARGEST = 4 * 1024 * 1024
_SECONDS = 30.0
_PAGES = 1000
_SENT = "application/octet-stream"
_S = TypeVar("_S", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Descriptor(_Strict):
    # It becomes part of an address.
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    mediaType: str = ""
    size: int = 0
    platform: dict[str, Any] | None = None


class _Shape(_Strict):
    """What is read of a manifest, or of a list of them."""

    config: _Descriptor | None = None
    layers: list[_Descriptor] | None = None
    manifests: list[_Descriptor] | None = None


class _Settings(_Strict):
    Labels: dict[str, str] | None = None


class _Layers(_Strict):
    diff_ids: list[str] | None = None


class _Configuration(_Strict):
    """What is read of an image's configuration."""

    architecture: str = ""
    config: _Settings | None = None
    rootfs: _Layers | None = None


class _Tags(_Strict):
    tags: list[str] | None = None


@dataclass(frozen=True)
class Manifest:
    """A manifest as the registry has it. `digest`: sha256:HEX of `content`, which is `kind`."""

    digest: str
    kind: str
    content: bytes

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.content)
        return found

    @property
    def config(self) -> str | None:
        """The digest of the image's configuration; None for a list of images."""
        digest = (self.document.get("config") or {}).get("digest")
        return str(digest) if digest else None


class Repository:
    """One repository of a registry, for the time of a `with` block."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        host = "registry-1.docker.io" if reference.host == "docker.io" else reference.host
        base = httpx.URL(f"{'http' if reference.loopback else 'https'}://{host}/v2/{reference.path}/")
        self._client = httpx.Client(
            base_url=base,
            auth=_Auth(reference.host, base),
            timeout=_SECONDS,
            # The system's certificates, which docker trusts too.
            verify=ssl.create_default_context(),
            trust_env=not reference.loopback,
            headers={"Accept-Encoding": "identity"},
            event_hooks={"response": [_bound]},
        )

    def __enter__(self) -> "Repository":
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def manifest(self, name: str) -> Manifest | None:
        """The manifest of a tag or digest; None when there is none. Errors: Unreachable; Mismatch; Refused."""
        answer = self._ask("GET", f"manifests/{name}", headers={"Accept": ", ".join((*_MANIFESTS, *_INDEXES))})
        if answer.status == 404:
            return None
        self._fine(answer, f"{self.reference.at(name)} cannot be read")
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
        found = Manifest(_digest(answer.content), kind, answer.content)
        if name.startswith("sha256:") and found.digest != name:
            raise Mismatch(f"{self.reference.host} sent {found.digest} when it was asked for {name}")
        if kind not in (*_MANIFESTS, *_INDEXES):
            raise Refused(f"{self.reference.at(name)} is no image: {kind or 'it has no type'}")
        self._shaped(_Shape, found.content, f"the manifest {self.reference.at(name)}")
        return found

    def image(self, name: str, architecture: str | None = None) -> tuple[Manifest, Image] | None:
        """The image of a tag or digest with its own manifest; of a list the one for an architecture.

        Errors: as `manifest`; Refused when a list does not have exactly one such image.
        """
        found = self.manifest(name)
        if found is not None and found.kind in _INDEXES:
            fitting = [
                entry["digest"]
                for entry in found.document.get("manifests") or ()
                if (entry.get("platform") or {}).get("os") == "linux"
                and architecture in (None, entry["platform"].get("architecture"))
            ]
            if len(fitting) != 1:
                what = f"{len(fitting)} images for linux/{architecture or 'any architecture'}"
                raise Refused(f"{self.reference.at(name)} is a list with {what}", hint="name one of them by digest")
            found = self.manifest(fitting[0])
        if found is None:
            return None
        if found.config is None:
            raise Refused(f"{self.reference.at(name)} is no image")
        content = self.blob(found.config)
        self._shaped(_Configuration, content, f"the configuration of {self.reference.at(name)}")
        return found, of_config(json.loads(content), found.config, found.digest)

    def tags(self) -> list[str]:
        """The names of all tags; empty for a repository that is not there. Errors: Unreachable; Refused."""
        found: list[str] = []
        url = "tags/list?n=1000"
        for _ in range(_PAGES):
            answer = self._ask("GET", url)
            if answer.status == 404:
                return []
            self._fine(answer, f"the tags of {self.reference.repository} cannot be read")
            found += self._shaped(_Tags, answer.content, f"the list of tags of {self.reference.repository}").tags or []
            if "next" not in (following := self._links(answer)):
                return found
            url = following["next"]
            if not _alike(httpx.URL(url), answer.url):
                said = f"the list of tags of {self.reference.repository} goes on at another address: {url}"
                raise Refused(said, hint=f"is {self.reference.host} the registry that was meant?")
        raise Refused(f"the list of tags of {self.reference.repository} has no end: {_PAGES} pages were read")

    def blob(self, digest: str) -> bytes:
        """A small blob. Errors: Refused when it is missing or huge; Mismatch when it is another one."""
        answer = self._ask("GET", f"blobs/{digest}", follow_redirects=True)
        self._fine(answer, f"{self.reference.repository} lacks {digest}")
        if _digest(answer.content) != digest:
            raise Mismatch(f"{self.reference.host} sent another content than {digest}")
        return answer.content

    def put_blob(self, kind: str, content: bytes) -> dict[str, Any]:
        """Store a blob, unless it is there; gives its descriptor. Errors: Unreachable; Refused."""
        digest = _digest(content)
        if self._ask("HEAD", f"blobs/{digest}", follow_redirects=True).status != 200:
            begun = self._ask("POST", "blobs/uploads/")
            self._fine(begun, f"nothing can be stored in {self.reference.repository}")
            target = self._joined(begun, begun.headers.get("Location", ""))
            sent = self._ask(
                "PUT",
                str(target.copy_merge_params({"digest": digest})),
                content=content,
                headers={"Content-Type": _SENT},
            )
            self._fine(sent, f"{digest} was not stored in {self.reference.repository}")
        return {"mediaType": kind, "digest": digest, "size": len(content)}

    def put_manifest(self, name: str, kind: str, content: bytes) -> str:
        """Give a manifest a tag; returns its digest. Errors: Unreachable; Refused."""
        answer = self._ask("PUT", f"manifests/{name}", content=content, headers={"Content-Type": kind})
        self._fine(answer, f"{self.reference.at(name)} was not written")
        return _digest(content)

    def _ask(self, method: str, url: str, **named: Any) -> "_Answer":
        try:
            with self._client.stream(method, url, **named) as answer:
                return _Answer(answer.status_code, answer.headers, answer.read(), answer.url)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            told = str(error) or type(error).__name__
            hint = "start it, or correct its name"
            raise Unreachable(f"the registry {self.reference.host} does not answer: {told}", hint=hint) from None

    def _links(self, answer: "_Answer") -> dict[str, str]:
        """By relation, the addresses that an answer points to."""
        told = re.findall(r'<([^>]*)>\s*;\s*rel="?(\w+)"?', answer.headers.get("Link", ""))
        return {relation: str(self._joined(answer, target)) for target, relation in told}

    def _joined(self, answer: "_Answer", target: str) -> httpx.URL:
        try:
            return answer.url.join(target)
        except httpx.InvalidURL:
            raise Refused(f"the registry {self.reference.host} points to {target!r}, which is no address") from None

    def _shaped(self, shape: type[_S], content: bytes, what: str) -> _S:
        """The document, when it is one: who answers may be no registry, and anybody may have pushed what it has."""
        try:
            return shape.model_validate(json.loads(content))
        except (ValueError, RecursionError) as error:
            first = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ()
            told = f"not readable at {'.'.join(map(str, first))}" if first else "no JSON object"
            raise Refused(f"{what} is {told}", hint=f"is {self.reference.host} the registry that was meant?") from None

    def _fine(self, answer: "_Answer", otherwise: str) -> None:
        if answer.status < 400:
            return
        host = self.reference.host
        if answer.status in (401, 403):
            hint = f"`docker login {host}` as somebody who may"
            raise Unreachable(f"the registry {host} does not allow this: {otherwise}", hint=hint)
        try:
            told = "; ".join(str(error.get("message")) for error in json.loads(answer.content)["errors"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            told = answer.content[:200].decode(errors="replace")
        problem = f"{otherwise}: HTTP {answer.status} {told}".rstrip()
        raise (Unreachable if answer.status >= 500 else Refused)(problem)


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: httpx.Headers
    content: bytes
    url: httpx.URL


class _Bounded(httpx.SyncByteStream):
    """What is sent, as far as it is no more than is ever read of a registry."""

    def __init__(self, answer: httpx.Response) -> None:
        # A storage's address may have a signature behind it.
        self._url, self._stream = answer.url.copy_with(query=None), answer.stream

    def __iter__(self) -> Iterator[bytes]:
        assert isinstance(self._stream, httpx.SyncByteStream)
        size = 0
        for part in self._stream:
            size += len(part)
            if size > _LARGEST:
                raise Refused(f"{self._url} has more than {_LARGEST} bytes")
            yield part

    def close(self) -> None:
        assert isinstance(self._stream, httpx.SyncByteStream)
        self._stream.close()


def _bound(answer: httpx.Response) -> None:
    # Also what comes before the answer itself is read whole: demands for a login, tokens, redirections.
    answer.stream = _Bounded(answer)
    # Nothing packed was asked for, and a little of it may stand for gigabytes.
    answer.headers.pop("Content-Encoding", None)


def _alike(one: httpx.URL, other: httpx.URL) -> bool:
    return (one.scheme, one.netloc) == (other.scheme, other.netloc)


class _Auth(httpx.Auth):
    """Answers a registry's demand for a password or a token, with what docker knows. Whoever else it sends us to, as to
    a storage for uploads, gets neither."""

    def __init__(self, host: str, base: httpx.URL) -> None:
        self._host = host
        self._base = base
        self._header: str | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if not _alike(request.url, self._base):
            yield request
            return
        if self._header is not None:
            request.headers["Authorization"] = self._header
        answer = yield request
        if answer.status_code != 401:
            return
        kind, _, rest = answer.headers.get("WWW-Authenticate", "").partition(" ")
        known = login(self._host)
        basic = f"Basic {b64encode(':'.join(known).encode()).decode()}" if known else None
        if kind.lower() == "basic" and basic:
            self._header = basic
        elif kind.lower() == "bearer":
            asked = yield _token_request(dict(re.findall(r'(\w+)="([^"]*)"', rest)), basic)
            if asked.status_code in (401, 403):
                return
            self._header = f"Bearer {self._token(asked)}"
        else:
            return
        request.headers["Authorization"] = self._header
        yield request

    def _token(self, answer: httpx.Response) -> str:
        try:
            document = json.loads(answer.read()) if answer.is_success else {}
            token = document.get("token") or document.get("access_token")
        except (ValueError, AttributeError, RecursionError):
            token = None
        # Else no header can carry it.
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            what = f"answers without a token for the registry {self._host}: HTTP {answer.status_code}"
            raise Unreachable(what, where=str(answer.url.copy_with(query=None)))
        return token


def _token_request(demand: Mapping[str, str], basic: str | None) -> httpx.Request:
    realm = httpx.URL(demand.get("realm", ""))
    if not realm.host:
        raise Refused(f"the registry names {str(realm)!r} for its tokens, which is no address")
    if realm.scheme != "https" and not loopback(realm.host):
        raise Refused(f"the registry names {realm} for its tokens, where a password would be sent in the clear")
    wanted = {name: demand[name] for name in ("service", "scope") if name in demand}
    return httpx.Request("GET", realm, params=wanted, headers={"Authorization": basic} if basic else {})


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
