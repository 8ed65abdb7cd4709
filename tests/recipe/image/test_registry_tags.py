"""Tags of a repository with more of them than one answer has: a StandIn of a registry that gives them in pages."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from recipe.errors import Refused
from recipe.image.reference import Reference
from recipe.image.registry import Repository

TAGS = [f"t{number}" for number in range(7)]


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        known = asked.path == "/v2/team/vllm/tags/list"
        last = parse_qs(asked.query).get("last", [""])[0]
        rest = TAGS[TAGS.index(last) + 1 :] if last else TAGS
        page, more = rest[:3], rest[3:]
        body = json.dumps({"name": "team/vllm", "tags": page or None} if known else {"errors": []}).encode()
        self.send_response(200 if known else 404)
        if more:
            self.send_header("Link", f'</v2/team/vllm/tags/list?n=3&last={page[-1]}>; rel="next"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_all_pages_are_read(address: str) -> None:
    with Repository(Reference(address, "team/vllm")) as repository:
        assert repository.tags() == TAGS


def test_a_repository_that_is_not_there_has_none(address: str) -> None:
    with Repository(Reference(address, "team/other")) as repository:
        assert repository.tags() == []


class _Elsewhere(BaseHTTPRequestHandler):
    """A registry that knows only who logs in, and sends its callers to another host: on with the list, and to a storage
    for uploads. Both hosts are this one, under two addresses."""

    told: list[tuple[str, str, bool]]

    def _answer(self) -> None:
        host, _, port = self.headers["Host"].partition(":")
        given = self.headers.get("Authorization")
        self.told.append((self.command, host, given is not None))
        body = json.dumps({"name": "team/vllm", "tags": TAGS[:3]}).encode()
        if host == "127.0.0.1" and given is None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="here"')
        else:
            self.send_response({"GET": 200, "HEAD": 404, "POST": 202, "PUT": 201}[self.command])
        self.send_header("Link", f'<http://127.0.0.2:{port}/v2/team/vllm/tags/list?last=t2>; rel="next"')
        self.send_header("Location", f"http://127.0.0.2:{port}/upload?ticket=1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[tuple[str, str, bool]]]]:
    _Elsewhere.told = []
    server = ThreadingHTTPServer(("", 0), _Elsewhere)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    host = f"127.0.0.1:{server.server_address[1]}"
    login = {"auths": {host: {"auth": base64.b64encode(b"me:password").decode()}}}
    (tmp_path / "config.json").write_text(json.dumps(login))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    yield host, _Elsewhere.told
    server.shutdown()
    server.server_close()


def test_a_list_that_goes_on_at_another_host_is_not_followed(
    elsewhere: tuple[str, list[tuple[str, str, bool]]],
) -> None:
    host, told = elsewhere
    with (
        Repository(Reference(host, "team/vllm")) as repository,
        pytest.raises(Refused, match=r"the list of tags of .* goes on at another address: http://127\.0\.0\.2:"),
    ):
        repository.tags()
    assert {address for _, address, _ in told} == {"127.0.0.1"}


def test_a_storage_that_uploads_are_sent_to_is_told_no_password(
    elsewhere: tuple[str, list[tuple[str, str, bool]]],
) -> None:
    host, told = elsewhere
    with Repository(Reference(host, "team/vllm")) as repository:
        repository.put_blob("application/octet-stream", b"content")
    assert ("POST", "127.0.0.1", True) in told
    assert [it for it in told if it[1] == "127.0.0.2"] == [("PUT", "127.0.0.2", False)]
