"""A registry's repository: a real one on loopback, and a stand-in that asks who is there."""

import base64
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest

from recipe.errors import HallmarkError, Mismatch, Refused, Unreachable
from recipe.image.reference import Reference
from recipe.image.registry import OCI_CONFIG, OCI_MANIFEST, Repository
from scripts.engines import registry
from tests.conftest import possible
from tests.standin.world import free_ports


def put_image(repository: Repository, tag: str, architecture: str = "amd64", **config: object) -> tuple[str, str]:
    """Store an image without layers; gives the digests of its manifest and configuration."""
    document = {"architecture": architecture, "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}
    made = repository.put_blob(OCI_CONFIG, json.dumps(document | {"config": config}).encode())
    manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": made, "layers": []}
    return repository.put_manifest(tag, OCI_MANIFEST, json.dumps(manifest).encode()), str(made["digest"])


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    [port] = free_ports(1)
    with possible():
        started = registry.start(tmp_path_factory.mktemp("registry"), port)
    yield Reference(started.address, "team/vllm")
    started.end()


@pytest.mark.docker
def test_an_image_is_stored_found_by_tag_and_digest_and_tagged_again(there: Reference) -> None:
    with Repository(there) as repository:
        manifest, config = put_image(repository, "one", Labels={"a": "b"})
        found = repository.image("one")
        assert found is not None
        assert (found[0].digest, found[1].config_digest, found[1].labels) == (manifest, config, {"a": "b"})
        assert repository.put_manifest("two", found[0].kind, found[0].content) == manifest
        again = repository.manifest(manifest)
        assert again is not None and again.content == found[0].content
        assert repository.manifest("three") is None
        assert repository.manifest(f"sha256:{'0' * 64}") is None


@pytest.mark.docker
def test_of_a_list_the_image_for_the_architecture_is_taken(there: Reference) -> None:
    kind = "application/vnd.oci.image.index.v1+json"
    with Repository(there) as repository:
        made = {name: put_image(repository, name, name) for name in ("amd64", "arm64")}
        entries = [
            {
                "mediaType": OCI_MANIFEST,
                "digest": digest,
                "size": len(found.content),
                "platform": {"os": "linux", "architecture": name},
            }
            for name, (digest, _) in made.items()
            if (found := repository.manifest(digest)) is not None
        ]
        repository.put_manifest(
            "list", kind, json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": entries}).encode()
        )
        one = repository.image("list", "arm64")
        assert one is not None and (one[0].digest, one[1].config_digest) == made["arm64"]
        with pytest.raises(Refused, match="is a list with 2 images for linux/any architecture — name one of them"):
            repository.image("list")


@pytest.mark.docker
def test_what_a_registry_refuses_is_told_in_its_words(there: Reference) -> None:
    config = {"mediaType": OCI_CONFIG, "digest": f"sha256:{'0' * 64}", "size": 2}
    content = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": []}
    with Repository(there) as repository, pytest.raises(Refused, match=r"was not written: HTTP 4\d\d blob unknown"):
        repository.put_manifest("broken", OCI_MANIFEST, json.dumps(content).encode())


def test_a_registry_that_is_not_there_is_unreachable() -> None:
    [port] = free_ports(1)
    with (
        Repository(Reference(f"127.0.0.1:{port}", "x")) as repository,
        pytest.raises(Unreachable, match=f"the registry 127.0.0.1:{port} does not answer: "),
    ):
        repository.manifest("x")


class Guarded(BaseHTTPRequestHandler):
    """A registry with one manifest that wants a password, or a token for it."""

    kind = "Basic"
    content = json.dumps({"config": {"digest": "sha256:" + "1" * 64}}).encode()
    asked: list[str]

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "")
        password = f"Basic {base64.b64encode(b'me:pass:word').decode()}"
        if self.path.startswith("/token"):
            self.asked.append(self.path)
            self._send(200 if given == password else 401, json.dumps({"token": "granted"}).encode())
        elif given == (password if self.kind == "Basic" else "Bearer granted"):
            self._send(200, self.content)
        else:
            self._send(401, b"{}")

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        port = cast(ThreadingHTTPServer, self.server).server_port
        demand = f'realm="http://127.0.0.1:{port}/token",service="s",scope="repository:x:pull"'
        self.send_header("WWW-Authenticate", f"{self.kind} {demand}")
        self.send_header("Content-Type", OCI_MANIFEST)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing needs it."""


@pytest.fixture
def guarded(request: pytest.FixtureRequest) -> Iterator[tuple[Reference, type[Guarded]]]:
    handler = type("Handler", (Guarded,), {"kind": request.param, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Reference(f"127.0.0.1:{server.server_port}", "x"), handler
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("guarded", ["Basic", "Bearer"], indirect=True)
@pytest.mark.parametrize("how", ["auth", "helper", "store"])
def test_dockers_own_login_is_used(
    guarded: tuple[Reference, type[Guarded]], how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, handler = guarded
    known: dict[str, dict[str, object]] = {
        "auth": {"auths": {reference.host: {"auth": base64.b64encode(b"me:pass:word").decode()}}},
        "helper": {"credHelpers": {reference.host: "standin"}},
        "store": {"credsStore": "standin", "auths": {reference.host: {}}},
    }
    (tmp_path / "config.json").write_text(json.dumps(known[how]))
    helper = tmp_path / "docker-credential-standin"
    helper.write_text('#!/bin/sh\nread host; echo \'{"Username": "me", "Secret": "pass:word"}\'\n')
    helper.chmod(0o755)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with Repository(reference) as repository:
        for _ in range(2):
            found = repository.manifest("x")
            assert found is not None and found.config == "sha256:" + "1" * 64
        with pytest.raises(Mismatch, match="when it was asked for"):
            repository.manifest(f"sha256:{hashlib.sha256(b'other').hexdigest()}")
    assert handler.asked == (["/token?service=s&scope=repository%3Ax%3Apull"] if handler.kind == "Bearer" else [])


@pytest.mark.parametrize("guarded", ["Basic", "Bearer"], indirect=True)
def test_without_a_login_it_is_said_how_to_get_one(
    guarded: tuple[Reference, type[Guarded]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    host = guarded[0].host
    with Repository(guarded[0]) as repository, pytest.raises(Unreachable, match=f"`docker login {host}`"):
        repository.manifest("x")


@pytest.mark.parametrize("guarded", ["Basic"], indirect=True)
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("{", "cannot be read as docker's settings"),
        ("[" * 100_000, "cannot be read as docker's settings"),
        ('{"auths": {"HOST": {"auth": 7}}}', "cannot be read as docker's settings"),
        ('{"credsStore": "odd"}', "docker-credential-odd cannot be run or gives no login"),
        ('{"credsStore": "none-here"}', "docker-credential-none-here cannot"),
    ],
    ids=["cut-off", "deep", "a-number", "odd-helper", "no-helper"],
)
def test_broken_settings_of_docker_are_a_plain_error(
    guarded: tuple[Reference, type[Guarded]], settings: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(settings.replace("HOST", guarded[0].host))
    odd = tmp_path / "docker-credential-odd"
    odd.write_text('#!/bin/sh\necho \'{"Username": "me"}\'\n')
    odd.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with Repository(guarded[0]) as repository, pytest.raises(HallmarkError, match=says):
        repository.manifest("x")
