"""The heartbeat of a group, on servers that do as they are told (E1)."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from launch.proof.heartbeat import beat


class Server(ThreadingHTTPServer):
    """Always 200 on /health; `hangs` on completions; `grows`: its counter of tokens rises with each look."""

    daemon_threads = True
    hangs = grows = False
    status = 200
    tokens = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.tokens += 5 if self.server.grows else 0
        self._send(200, f"vllm:generation_tokens_total {self.server.tokens}\n" if self.path == "/metrics" else "{}")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["max_tokens"] == 1
        if self.server.hangs:
            self.server.over.wait()
            return
        usage = {"prompt_tokens": 4, "completion_tokens": 1}
        self._send(self.server.status, json.dumps({"choices": [{"text": " x"}], "usage": usage}))

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.over.set()
        made.shutdown()


def test_a_token_that_comes_back_is_an_answer(server: Server) -> None:
    assert beat(server.url, "m").state == "answers"


def test_health_that_says_200_means_nothing(server: Server) -> None:
    """E1: /health is 200 and completions never come back."""
    server.hangs = True
    found = beat(server.url, "m", deadline=0.3)
    assert (found.state, found.alive) == ("silent", False)
    assert "its counters stand still" in found.reason


def test_an_engine_whose_counters_move_is_busy_and_not_dead(server: Server) -> None:
    """E1, the opposite fault: a saturated engine that makes progress."""
    server.hangs = server.grows = True
    found = beat(server.url, "m", deadline=0.3)
    assert (found.state, found.alive) == ("busy", True)


def test_an_engine_that_refuses_is_silent_whatever_its_counters_do(server: Server) -> None:
    server.grows, server.status = True, 500
    assert beat(server.url, "m").state == "silent"


def test_where_nothing_listens_nothing_answers(server: Server) -> None:
    assert "nothing answers at 127.0.0.1:1" in beat("http://127.0.0.1:1", "m").reason
