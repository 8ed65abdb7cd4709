"""The outage that the demo measures, on a server that is taken away and comes back."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scripts.demo.watch import Watch
from tests.standin.world import until


class _Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(time.monotonic())  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


def serve(port: int) -> tuple[ThreadingHTTPServer, list[float]]:
    server = ThreadingHTTPServer(("127.0.0.1", port), _Answers)
    server.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    return server, server.asked  # type: ignore[attr-defined]


def end(server: ThreadingHTTPServer) -> None:
    server.shutdown()
    server.server_close()


def test_the_outage_is_the_longest_time_between_two_answers() -> None:
    server, asked = serve(0)
    port = server.server_address[1]
    with Watch(f"http://127.0.0.1:{port}", "tiny") as watch:
        until(lambda: len(asked) >= 3)
        end(server)
        gone = time.monotonic()
        until(lambda: watch._gone)
        server, again = serve(port)
        back = time.monotonic()
        until(lambda: again)
        until(watch._ended.is_set)
    end(server)
    assert len(again) == 1, "it goes on asking while the gates count"
    assert watch.outage is not None
    # It began with an answer before the end and ended with one behind the new beginning.
    assert watch.outage >= back - gone
    assert watch.outage == max(
        after - before for before, after in zip(watch._answers, watch._answers[1:], strict=False)
    )


def test_without_two_answers_there_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    with Watch("http://127.0.0.1:1", "tiny", patience=0.0) as watch:
        pass
    assert watch.outage is None
