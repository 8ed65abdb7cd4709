"""The head's HTTP API: the endpoints that Hallmark asks, with vLLM's counters and its way of dying."""

import json
import os
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from . import __version__, behaviour

_DRAFTED = 3
_WORDS = ("one", "two", "three", "four", "five", "six", "seven")


class Api(ThreadingHTTPServer):
    """`step` runs one step on all ranks and says whether all took part; `end` ends the head."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], model: str, step: Callable[[], bool], end: Callable[[], None]) -> None:
        super().__init__(address, _Handler)
        self.model, self.step, self.end = model, step, end
        self.lock = threading.Lock()
        self.answers = self.generated = self.steps = self.drafts = self.accepted = 0
        self.dead = False

    def server_bind(self) -> None:
        # HTTPServer's own asks for the address's name, and waits for that where nobody is to be asked.
        socketserver.TCPServer.server_bind(self)

    def complete(self, tokens: int) -> str | None:
        """The text of an answer; None when a rank is lost, after which the head ends as vLLM's does."""
        with self.lock:
            if self.dead or not self.step():
                if not self.dead:
                    print("EngineDeadError: EngineCore encountered an issue", flush=True)
                    threading.Timer(0.2, self.end).start()
                self.dead = True
                return None
            per_step = 1 if behaviour.DRAFT_SHIFT else _DRAFTED + 1
            steps = -(-tokens // per_step)
            self.generated += tokens
            self.steps += steps
            self.drafts += steps
            self.accepted += tokens - steps
            self.answers += 1
            if self.answers >= behaviour.ANSWERS_BEFORE_DEATH:
                threading.Timer(0.05, self.end).start()
        return "".join(f" {_WORDS[index % len(_WORDS)]}" for index in range(tokens))

    def metrics(self) -> str:
        with self.lock:
            figures = {
                'vllm:generation_tokens_total{engine="0"}': self.generated,
                'vllm:iteration_tokens_total_count{engine="0"}': self.steps,
                'vllm:spec_decode_num_drafts_total{engine="0"}': self.drafts,
                'vllm:spec_decode_num_draft_tokens_total{engine="0"}': self.drafts * _DRAFTED,
                'vllm:spec_decode_num_accepted_tokens_total{engine="0"}': self.accepted,
            }
        for path in Path(__file__).parents[1].glob("vllm-*.dist-info/PATCHES.json"):
            patchset = json.loads(path.read_text(encoding="utf-8"))["patchset"]
            figures[f'hallmark:patchset_info{{patchset="{patchset}",vllm="{__version__}"}}'] = 1
        return "".join(f"{name} {value}\n" for name, value in figures.items())


class _Handler(BaseHTTPRequestHandler):
    server: Api
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self) -> None:
        if self._refused():
            return
        if self.path == "/metrics":
            self._send(200, self.server.metrics().encode(), "text/plain")
        elif self.path == "/health":
            self._answer(503 if self.server.dead else 200, {})
        elif self.path == "/v1/models":
            self._answer(200, {"data": [{"id": self.server.model}]})
        elif self.path == "/version":
            self._answer(200, {"version": __version__})
        else:
            self._answer(404, {"error": "not found"})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._refused():
            return
        if behaviour.HANG_COMPLETIONS:
            threading.Event().wait()
        was_dead = self.server.dead
        text = self.server.complete(int(request["max_tokens"]))
        if text is None:
            self._answer(503 if was_dead else 500, {"error": "EngineDeadError"})
            return
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        choice |= {"message": {"content": text}} if "messages" in request else {"text": text}
        usage = {"prompt_tokens": 4, "completion_tokens": int(request["max_tokens"])}
        self._answer(200, {"choices": [choice], "usage": usage})

    def _refused(self) -> bool:
        """Whether the caller lacks the key, which vLLM asks for below /v1 only."""
        key = os.environ.get("VLLM_API_KEY")
        if not key or not self.path.startswith("/v1") or self.headers.get("Authorization") == f"Bearer {key}":
            return False
        self._answer(401, {"error": "Unauthorized"})
        return True

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, json.dumps(document).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """vLLM's access log is on standard output; nothing here needs it."""
