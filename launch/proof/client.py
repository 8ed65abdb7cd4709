"""A thin client of the OpenAI-compatible API of one group, and the ways in which it can fail to answer."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import httpx

Via = Literal["completions", "chat"]

# A reply of this size is a fault, and reading on would cost the controller its memory.
LARGEST_REPLY = 64 * 1024 * 1024


class ApiError(Exception):
    """The server did not answer as asked; the message is one clause without the address.

    `lasting`: the next request would most likely meet the same, so there is no use in sending it.
    """

    lasting = False


class NotListening(ApiError):
    """The connection was refused or broken: no process serves there (any more)."""

    lasting = True


class TimedOut(ApiError):
    """No complete answer before the deadline."""

    lasting = True


class BadStatus(ApiError):
    """The server answered with an HTTP error."""

    def __init__(self, status: int, body: str) -> None:
        self.status = status
        super().__init__(f"HTTP {status}: {body[:300] or 'no body'}")


class BadReply(ApiError):
    """The answer is not what the API promises (no JSON, no text, no usage)."""


@dataclass(frozen=True)
class Completion:
    """One answer. `tokens` and `prompt_tokens` are the server's own count, `seconds` is wall time."""

    text: str
    tokens: int
    prompt_tokens: int
    finish_reason: str | None
    seconds: float


@dataclass(frozen=True)
class Tokens:
    """One answer by its token ids, with those of the prompt as the server made them."""

    prompt_ids: list[int]
    ids: list[int]


@dataclass(frozen=True)
class Choice:
    """One token of a prompt: how many nats its log probability is behind that of the model's first choice there."""

    behind: float


@dataclass(frozen=True)
class Served:
    """A model as /v1/models lists it: `root` is its path or id on the server, `longest` its context in tokens."""

    name: str
    root: str | None
    longest: int | None


@dataclass(frozen=True)
class Streamed:
    """One answer that came in pieces: seconds of wall time to its first text (`first`) and to its end (`seconds`).

    `tokens` is the server's own count: pieces are no tokens, since a step with accepted drafts sends several at once.
    """

    text: str
    tokens: int
    prompt_tokens: int
    first: float
    seconds: float


class Client:
    """Talks to one base URL, such as `http://127.0.0.1:8000`; safe to share between threads."""

    def __init__(self, base_url: str, *, api_key: str | None = None) -> None:
        self.base_url = base_url.rstrip("/")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        # Proxies of the environment are ignored: the API is on loopback or on the machines' own network.
        self._http = httpx.Client(base_url=self.base_url, headers=headers, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def complete(
        self,
        model: str,
        prompt: str | list[int],
        *,
        tokens: int,
        deadline: float,
        via: Via = "completions",
        to_the_end: bool = True,
    ) -> Completion:
        """Ask for a greedy answer of `tokens` tokens within `deadline` seconds; `prompt` is text or token ids.

        `to_the_end`: the end-of-sequence token does not end it, so that the length is the same on every model
        and a short answer means a fault. Errors: ApiError.
        """
        path, body = _request(model, prompt, tokens, via, to_the_end)
        started = time.monotonic()
        reply = self._json("POST", path, deadline, body)
        seconds = time.monotonic() - started
        try:
            choice, usage = reply["choices"][0], reply["usage"]
            text = choice["text"] if via == "completions" else _spoken(choice["message"])
            return Completion(
                text=str(text),
                tokens=int(usage["completion_tokens"]),
                prompt_tokens=int(usage["prompt_tokens"]),
                finish_reason=choice.get("finish_reason"),
                seconds=seconds,
            )
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise BadReply(f"the answer of {path} lacks its text or its token usage: {str(reply)[:200]}") from error

    def stream(self, model: str, prompt: str, *, tokens: int, deadline: float, via: Via = "completions") -> Streamed:
        """Ask for a greedy answer of at most `tokens` tokens, piece by piece, within `deadline` seconds.

        Errors: ApiError, also for a fault that the server reports in the middle, and for an answer without usage.
        """
        path, body = _request(model, prompt, tokens, via, to_the_end=False)
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        started = time.monotonic()
        texts: list[str] = []
        first: float | None = None
        usage: dict[str, Any] | None = None
        for event in self._events(path, deadline, body):
            if "error" in event:
                raise BadReply(f"{path} broke off: {str(event['error'])[:300]}")
            try:
                for choice in event["choices"]:
                    piece = _spoken(choice["delta"]) if via == "chat" else str(choice["text"])
                    if piece and first is None:
                        first = time.monotonic() - started
                    texts.append(piece)
            except (KeyError, TypeError, AttributeError) as error:
                raise BadReply(f"a piece of {path} lacks its text: {str(event)[:200]}") from error
            usage = event.get("usage") or usage
        seconds = time.monotonic() - started
        if usage is None or first is None:
            raise BadReply(f"the stream of {path} ended without {'text' if first is None else 'its token usage'}")
        return Streamed("".join(texts), int(usage["completion_tokens"]), int(usage["prompt_tokens"]), first, seconds)

    def tokens(self, model: str, prompt: str | list[int], *, tokens: int, deadline: float) -> Tokens:
        """A greedy answer of at most `tokens` tokens, by ids. Errors: ApiError."""
        path, body = _request(model, prompt, tokens, "completions", to_the_end=False)
        reply = self._json("POST", path, deadline, body | {"return_token_ids": True})
        try:
            choice = reply["choices"][0]
            return Tokens([int(it) for it in choice["prompt_token_ids"]], [int(it) for it in choice["token_ids"]])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise BadReply(f"the answer of {path} lacks its token ids: {str(reply)[:200]}") from error

    def choices(self, model: str, ids: list[int], *, deadline: float) -> list[Choice]:
        """What the model would have chosen at each place of `ids`; nothing is known of the first. Errors: ApiError."""
        path, body = _request(model, ids, 1, "completions", to_the_end=True)
        reply = self._json("POST", path, deadline, body | {"prompt_logprobs": 1})
        try:
            told = reply["choices"][0]["prompt_logprobs"]
            if len(told) != len(ids):
                raise BadReply(f"{path} gave {len(told)} prompt logprobs for {len(ids)} tokens")
            return [Choice(0.0 if one is None else _behind(one, token)) for one, token in zip(told, ids, strict=True)]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise BadReply(f"the answer of {path} lacks its prompt logprobs: {str(reply)[:200]}") from error

    def message(
        self, model: str, prompt: str, *, tokens: int, deadline: float, more: dict[str, Any]
    ) -> tuple[dict[str, Any], str | None]:
        """The message of one greedy chat answer, and why it ended; `more` goes into the request. Errors: ApiError."""
        path, body = _request(model, prompt, tokens, "chat", to_the_end=False)
        reply = self._json("POST", path, deadline, body | more)
        try:
            choice = reply["choices"][0]
            return dict(choice["message"]), choice.get("finish_reason")
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise BadReply(f"the answer of {path} lacks its message: {str(reply)[:200]}") from error

    def tokenize(self, model: str, text: str, *, deadline: float) -> list[int]:
        """The token ids of a text, as /tokenize gives them. Errors: ApiError."""
        reply = self._json("POST", "/tokenize", deadline, {"model": model, "prompt": text})
        try:
            return [int(token) for token in reply["tokens"]]
        except (KeyError, TypeError, ValueError) as error:
            raise BadReply(f"/tokenize gave no tokens: {str(reply)[:200]}") from error

    def served(self, *, deadline: float) -> list[Served]:
        """The served models with what the server tells of each. Errors: ApiError."""
        reply = self._json("GET", "/v1/models", deadline)
        try:
            return [Served(str(it["id"]), it.get("root"), it.get("max_model_len")) for it in reply["data"]]
        except (KeyError, TypeError, AttributeError) as error:
            raise BadReply(f"/v1/models lists no models: {str(reply)[:200]}") from error

    def models(self, *, deadline: float) -> list[str]:
        """Names of the served models. Errors: ApiError."""
        return [model.name for model in self.served(deadline=deadline)]

    def version(self, *, deadline: float) -> str:
        """vLLM's version as the server states it. Errors: ApiError."""
        reply = self._json("GET", "/version", deadline)
        try:
            return str(reply["version"])
        except (KeyError, TypeError) as error:
            raise BadReply(f"/version states no version: {str(reply)[:200]}") from error

    def metrics(self, *, deadline: float) -> str:
        """The text of /metrics. Errors: ApiError."""
        return self._whole("GET", "/metrics", deadline).decode("utf-8", "replace")

    def _events(self, path: str, deadline: float, body: object) -> Iterator[dict[str, Any]]:
        # Server-sent events: one JSON document behind "data: " a line, the last one is [DONE].
        rest = b""
        for piece in self._pieces("POST", path, deadline, body):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                content = line.strip().removeprefix(b"data:").strip()
                if not line.startswith(b"data:") or content == b"[DONE]":
                    continue
                try:
                    event = json.loads(content)
                except (ValueError, RecursionError) as error:
                    raise BadReply(f"a piece of {path} is no JSON: {content[:200]!r}") from error
                if not isinstance(event, dict):
                    raise BadReply(f"a piece of {path} is no JSON object: {content[:200]!r}")
                yield event

    def _json(self, method: str, path: str, deadline: float, body: object | None = None) -> Any:
        content = self._whole(method, path, deadline, body)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise BadReply(f"{path} answered no JSON: {content[:200]!r}") from error

    def _whole(self, method: str, path: str, deadline: float, body: object | None = None) -> bytes:
        return b"".join(self._pieces(method, path, deadline, body))

    def _pieces(self, method: str, path: str, deadline: float, body: object | None = None) -> Iterator[bytes]:
        # httpx counts its time-out anew with every piece that arrives, so a trickling server would never end;
        # the whole answer is held to the deadline here.
        ends = time.monotonic() + deadline
        size = 0
        try:
            with self._http.stream(method, path, json=body, timeout=deadline) as response:
                refusal = bytearray()
                for piece in response.iter_bytes():
                    size += len(piece)
                    if time.monotonic() > ends:
                        raise TimedOut(f"{path} did not finish within {deadline:g} s")
                    if size > LARGEST_REPLY:
                        raise BadReply(f"{path} answered more than {LARGEST_REPLY} bytes")
                    if response.is_error:
                        refusal += piece
                    else:
                        yield piece
                if response.is_error:
                    raise BadStatus(response.status_code, refusal.decode("utf-8", "replace").strip())
        except httpx.TimeoutException as error:
            raise TimedOut(f"{path} did not answer within {deadline:g} s") from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise NotListening(f"{path}: {error or type(error).__name__}") from error
        except httpx.HTTPError as error:
            raise BadReply(f"{path}: {error or type(error).__name__}") from error


def complete_together(
    client: Client, model: str, prompts: Sequence[str], *, tokens: int, deadline: float
) -> list[Completion | ApiError]:
    """Ask for all answers at the same time; each place holds the answer or why there is none."""
    start = threading.Barrier(len(prompts))

    def one(prompt: str) -> Completion | ApiError:
        start.wait()
        try:
            return client.complete(model, prompt, tokens=tokens, deadline=deadline)
        except ApiError as error:
            return error

    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(one, prompts))


def _request(
    model: str, prompt: str | list[int], tokens: int, via: Via, to_the_end: bool
) -> tuple[str, dict[str, Any]]:
    body: dict[str, Any] = {"model": model, "max_tokens": tokens, "temperature": 0, "ignore_eos": to_the_end}
    if via == "chat":
        return "/v1/chat/completions", body | {"messages": [{"role": "user", "content": prompt}]}
    return "/v1/completions", body | {"prompt": prompt}


def _spoken(message: dict[str, Any]) -> str:
    # With a reasoning parser the whole of a short answer may be reasoning, and `content` is then null.
    return (message.get("reasoning") or message.get("reasoning_content") or "") + (message.get("content") or "")


def _behind(told: dict[str, dict[str, Any]], token: int) -> float:
    first = max(float(one["logprob"]) for one in told.values())
    return max(0.0, first - float(told[str(token)]["logprob"]))
