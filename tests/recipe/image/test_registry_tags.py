"""Tags of a repository with more of them than one answer has: a StandIn of a registry that gives them in pages."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

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
