"""A stand-in for a vLLM server: answers from a table, keeps vLLM's counters, and can be broken on purpose."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Behaviour:
    """How the stand-in behaves; the defaults are those of a healthy server without speculation.

    answers: prompt -> text, otherwise as many words as tokens are asked for. in_batch: the same for requests that
    come together. alone_first: that many requests come one by one, and the same number after them together.
    serial: what comes together takes as many steps as alone. spec: what each answer adds to the speculation
    counters. others: tokens of other people's requests that land with each answer. late: how many times /metrics
    is read before the last answer is counted. extra: more lines of /metrics. fails_at: which request is answered 500.
    per_piece: tokens in each piece of a streamed answer. breaks_off: a stream ends with an error in its middle.
    spec_by_prompt: the same as spec, for single prompts. drafts_always: also one-token answers are drafted for.
    behind: place of a token → nats that it is behind the model's first choice, for text that was drafted; control: the
    same for text that was not. longest: the context in tokens. cuts: prompt tokens that get lost. harmed: what the
    prompts are answered after a prompt by ids. messages: prompt → the whole message of a chat answer.
    """

    answers: dict[str, str] = field(default_factory=dict)
    in_batch: dict[str, str] = field(default_factory=dict)
    alone_first: int = 0
    serial: bool = False
    tokens: int | None = None
    usage: bool = True
    status: int = 200
    hangs: bool = False
    breaks: bool = False
    metrics_status: int = 200
    spec: dict[str, Any] | None = None
    engines: int = 1
    others: int = 0
    late: int = 0
    restarts: bool = False
    extra: str = ""
    fails_at: int = 0
    per_piece: int = 1
    breaks_off: bool = False
    spec_by_prompt: dict[str, dict[str, Any]] = field(default_factory=dict)
    drafts_always: bool = False
    behind: dict[int, float] = field(default_factory=dict)
    control: dict[int, float] = field(default_factory=dict)
    longest: int | None = 64
    cuts: int = 0
    harmed: str | None = None
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    finish_reason: str = "length"


class StandInServer(ThreadingHTTPServer):
    """Serves completions, chat, models, version and metrics on loopback in a thread of its own."""

    daemon_threads = True

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = behaviour
        self.requests: list[dict[str, Any]] = []
        self.generated = 0
        self.steps = 0
        self.answered = 0
        self.unread = 0
        self.drafted: list[dict[str, Any]] = []
        self.by_ids = False
        self.looks = 0
        self.released = threading.Event()
        self.lock = threading.Lock()
        self.together = threading.Barrier(max(behaviour.alone_first, 1))
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def stop(self) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()
        self.thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that gave up are part of the tests."""

    def metrics(self) -> str:
        behaviour = self.behaviour
        with self.lock:
            answered, generated = self.answered, self.generated
            if self.unread > 0:
                self.unread -= 1
                answered, generated = answered - 1, generated - self.requests[-1]["max_tokens"]
        restarted = behaviour.restarts and answered > 0
        lines = [
            "# TYPE vllm:generation_tokens_total counter",
            f'vllm:generation_tokens_total{{engine="0",model_name="m"}} {generated}.0',
            "# TYPE vllm:iteration_tokens_total histogram",
            f'vllm:iteration_tokens_total_count{{engine="0",model_name="m"}} {self.steps}.0',
        ]
        for engine in range(behaviour.engines if behaviour.spec else 0):
            labels = f'engine="{engine}",model_name="m"'
            for key, each in (behaviour.spec or {}).items():
                name = f"vllm:spec_decode_num_{key}"
                listed = isinstance(each, list)
                lines.append(f"# TYPE {name}_total counter")
                for position in range(len(each) if listed else 1):
                    where = f'{labels},position="{position}"' if listed else labels
                    added = sum(one[key][position] if listed else one[key] for one in self.drafted[:answered])
                    value = 0 if restarted else 1000 + added // behaviour.engines
                    lines.append(f"{name}_total{{{where}}} {value}.0")
                lines += [f"# TYPE {name}_created gauge", f"{name}_created{{{labels}}} 1.79e+09"]
        return "\n".join([*lines, behaviour.extra, ""])


class _Handler(BaseHTTPRequestHandler):
    server: StandInServer
    protocol_version = "HTTP/1.1"
    # Head and body are two writes; the second would wait 40 ms for the first one's acknowledgement.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._send(self.server.behaviour.metrics_status, self.server.metrics(), "text/plain")
        elif self.path == "/v1/models":
            listed = {"id": "m", "max_model_len": self.server.behaviour.longest}
            self._send(200, json.dumps({"object": "list", "data": [listed]}))
        elif self.path == "/version":
            self._send(200, json.dumps({"version": "0.33.0"}))
        else:
            self._send(404, "{}")

    def do_POST(self) -> None:
        server, behaviour = self.server, self.server.behaviour
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self._send(200, json.dumps({"tokens": list(range(len(body["prompt"].split())))}))
            return
        with server.lock:
            server.requests.append(body)
            number = len(server.requests)
        if behaviour.hangs:
            server.released.wait()
            return
        if behaviour.breaks:
            self.close_connection = True
            return
        if behaviour.status != 200 or number == behaviour.fails_at:
            self._send(
                500 if number == behaviour.fails_at else behaviour.status,
                json.dumps({"error": {"message": "EngineCore encountered an issue."}}),
            )
            return
        in_batch = 0 < behaviour.alone_first < number
        if in_batch:
            server.together.wait(timeout=30)
        tokens = body["max_tokens"] if behaviour.tokens is None else behaviour.tokens
        chat = self.path == "/v1/chat/completions"
        asked = body["messages"][-1]["content"] if chat else body["prompt"]
        drafts = behaviour.spec_by_prompt.get(asked if isinstance(asked, str) else "", behaviour.spec) or {}
        if tokens == 1 and not behaviour.drafts_always:
            drafts = {key: [0] * len(each) if isinstance(each, list) else 0 for key, each in drafts.items()}
        with server.lock:
            server.drafted.append(drafts)
            server.answered += 1
            server.generated += tokens + behaviour.others
            server.steps += tokens // (behaviour.alone_first if in_batch and not behaviour.serial else 1)
            server.unread = behaviour.late
        ids = body.get("prompt") if isinstance(body.get("prompt"), list) else [1, 2, 3]
        length = len(ids) - behaviour.cuts
        if isinstance(body.get("prompt"), list):
            body["prompt"] = f"{len(body['prompt'])} tokens"
            server.by_ids = True
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        usage = {"prompt_tokens": length, "completion_tokens": tokens, "total_tokens": tokens + length}
        if body.get("stream"):
            self._stream(chat, tokens, usage)
            return
        text = (behaviour.in_batch if in_batch else {}).get(prompt) or behaviour.answers.get(prompt, " word" * tokens)
        if behaviour.harmed is not None and server.by_ids and body["prompt"] == prompt:
            text = behaviour.harmed
        said: dict[str, Any] = (
            {"message": behaviour.messages.get(prompt, {"content": text})} if chat else {"text": text}
        )
        if body.get("return_token_ids"):
            # Token n of an answer has the id 100 + n, however it was asked for.
            begun = len(ids) - 3
            said |= {"prompt_token_ids": ids, "token_ids": list(range(100 + begun, 100 + begun + tokens))}
        if "prompt_logprobs" in body:
            server.looks += 1
            said["prompt_logprobs"] = _logprobs(ids, behaviour.control if server.looks % 2 == 0 else behaviour.behind)
        reply: dict[str, Any] = {"choices": [said | {"finish_reason": behaviour.finish_reason}]}
        if behaviour.usage:
            reply["usage"] = usage
        self._send(200, json.dumps(reply))

    def _stream(self, chat: bool, tokens: int, usage: dict[str, int]) -> None:
        behaviour = self.server.behaviour
        events: list[dict[str, Any]] = [{"choices": [{"delta": {"role": "assistant"}}]}] if chat else []
        for _ in range(0, tokens, behaviour.per_piece):
            text = " word" * behaviour.per_piece
            events.append({"choices": [{"delta": {"content": text}} if chat else {"text": text}]})
        if behaviour.breaks_off:
            events[len(events) // 2 :] = [{"error": {"message": "EngineCore encountered an issue."}}]
        elif behaviour.usage:
            events.append({"choices": [], "usage": usage})
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        self._send(200, "".join([*lines, "data: [DONE]\n\n"]), "text/event-stream")

    def _send(self, status: int, text: str, kind: str = "application/json") -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _logprobs(ids: list[int], behind: dict[int, float]) -> list[dict[str, Any] | None]:
    # The first three are the prompt's; a gate looks at the answer first and at its control second.
    told: list[dict[str, Any] | None] = [None]
    for place, token in enumerate(ids[1:], 1 - 3):
        nats = behind.get(place, 0.0)
        told.append({str(token): {"logprob": -0.5 - nats}} | ({"7": {"logprob": -0.5}} if nats else {}))
    return told


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in's counters are there at once, or never."""
    monkeypatch.setattr("launch.proof.counters.SETTLE_EVERY", 0.005)
    monkeypatch.setattr("launch.proof.counters.SETTLE_SECONDS", 0.5)


@pytest.fixture
def stand_in() -> Iterator[Callable[..., StandInServer]]:
    """Starts stand-in servers; `stand_in(status=500)` is one that always answers 500."""
    servers: list[StandInServer] = []

    def start(**behaviour: Any) -> StandInServer:
        servers.append(StandInServer(Behaviour(**behaviour)))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def state(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A state folder of the test's own."""
    folder = tmp_path / "state"
    monkeypatch.setenv("HALLMARK_STATE", str(folder))
    return folder
