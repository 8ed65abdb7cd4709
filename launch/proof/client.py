"""A thin client of the OpenAI-compatible API of one group, and the ways in which it can fail to answer."""

import json
import threading
import time
from collections.abc import Sequence
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
        prompt: str,
        *,
        tokens: int,
        deadline: float,
        via: Via = "completions",
        to_the_end: bool = True,
    ) -> Completion:
        """Ask for a greedy answer of `tokens` tokens within `deadline` seconds.

        `to_the_end`: the end-of-sequence token does not end it, so that the length is the same on every model
        and a short answer means a fault. Errors: ApiError.
        """
        body: dict[str, Any] = {"model": model, "max_tokens": tokens, "temperature": 0, "ignore_eos": to_the_end}
        if via == "chat":
            path, body["messages"] = "/v1/chat/completions", [{"role": "user", "content": prompt}]
        else:
            path, body["prompt"] = "/v1/completions", prompt
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

    def models(self, *, deadline: float) -> list[str]:
        """Names of the served models. Errors: ApiError."""
        reply = self._json("GET", "/v1/models", deadline)
        try:
            return [str(entry["id"]) for entry in reply["data"]]
        except (KeyError, TypeError) as error:
            raise BadReply(f"/v1/models lists no models: {str(reply)[:200]}") from error

    def version(self, *, deadline: float) -> str:
        """vLLM's version as the server states it. Errors: ApiError."""
        reply = self._json("GET", "/version", deadline)
        try:
            return str(reply["version"])
        except (KeyError, TypeError) as error:
            raise BadReply(f"/version states no version: {str(reply)[:200]}") from error

    def metrics(self, *, deadline: float) -> str:
        """The text of /metrics. Errors: ApiError."""
        return self._request("GET", "/metrics", deadline).decode("utf-8", "replace")

    def _json(self, method: str, path: str, deadline: float, body: object | None = None) -> Any:
        content = self._request(method, path, deadline, body)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise BadReply(f"{path} answered no JSON: {content[:200]!r}") from error

    def _request(self, method: str, path: str, deadline: float, body: object | None = None) -> bytes:
        # httpx counts its time-out anew with every piece that arrives, so a trickling server would never end;
        # the whole answer is held to the deadline here.
        ends = time.monotonic() + deadline
        content = bytearray()
        try:
            with self._http.stream(method, path, json=body, timeout=deadline) as response:
                for piece in response.iter_bytes():
                    content += piece
                    if time.monotonic() > ends:
                        raise TimedOut(f"{path} did not finish within {deadline:g} s")
                    if len(content) > LARGEST_REPLY:
                        raise BadReply(f"{path} answered more than {LARGEST_REPLY} bytes")
                if response.is_error:
                    raise BadStatus(response.status_code, content.decode("utf-8", "replace").strip())
        except httpx.TimeoutException as error:
            raise TimedOut(f"{path} did not answer within {deadline:g} s") from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise NotListening(f"{path}: {error or type(error).__name__}") from error
        except httpx.HTTPError as error:
            raise BadReply(f"{path}: {error or type(error).__name__}") from error
        return bytes(content)


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


def _spoken(message: dict[str, Any]) -> str:
    # With a reasoning parser the whole of a short answer may be reasoning, and `content` is then null.
    return (message.get("reasoning") or message.get("reasoning_content") or "") + (message.get("content") or "")
