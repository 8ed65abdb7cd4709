"""The client tells the ways in which a server fails apart, and counts what the server counts."""

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from launch.proof.client import (
    ApiError,
    BadReply,
    BadStatus,
    Client,
    Completion,
    NotListening,
    TimedOut,
    complete_together,
)
from launch.proof.throughput import single_stream


def test_tokens_are_counted_by_the_server_and_not_by_words(stand_in: Callable[..., Any]) -> None:
    answer = Client(stand_in(answers={"a": " one two"}).url).complete("m", "a", tokens=40, deadline=5)
    assert (answer.text, answer.tokens, answer.prompt_tokens) == (" one two", 40, 3)


def test_models_version_and_metrics_are_read(stand_in: Callable[..., Any]) -> None:
    client = Client(stand_in().url)
    assert client.models(deadline=5) == ["m"]
    assert client.version(deadline=5) == "0.33.0"
    assert "vllm:generation_tokens_total" in client.metrics(deadline=5)


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ({"status": 500}, BadStatus),
        ({"status": 401}, BadStatus),
        ({"hangs": True}, TimedOut),
        ({"breaks": True}, NotListening),
        ({"usage": False}, BadReply),
    ],
)
def test_each_failure_has_a_class_of_its_own(
    behaviour: dict[str, Any], error: type[ApiError], stand_in: Callable[..., Any]
) -> None:
    with pytest.raises(error):
        Client(stand_in(**behaviour).url).complete("m", "a", tokens=10, deadline=0.3)


def test_a_refused_connection_is_told_from_a_time_out(stand_in: Callable[..., Any]) -> None:
    server = stand_in()
    server.stop()
    with pytest.raises(NotListening):
        Client(server.url).version(deadline=5)


def test_an_answer_that_trickles_is_held_to_the_deadline() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def trickle() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not stop.wait(0.02):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    thread = threading.Thread(target=trickle, daemon=True)
    thread.start()
    started = time.monotonic()
    with pytest.raises(TimedOut):
        Client(f"http://127.0.0.1:{listener.getsockname()[1]}").version(deadline=0.3)
    assert time.monotonic() - started < 5
    stop.set()
    thread.join()
    listener.close()


def test_proxies_of_the_environment_are_not_used(stand_in: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert Client(stand_in().url).version(deadline=5) == "0.33.0"


def test_answers_that_are_asked_together_come_back_in_order(stand_in: Callable[..., Any]) -> None:
    client = Client(stand_in(answers={"a": " 1", "b": " 2", "c": " 3"}).url)
    answers = complete_together(client, "m", ["a", "b", "c"], tokens=10, deadline=5)
    assert [answer.text for answer in answers if isinstance(answer, Completion)] == [" 1", " 2", " 3"]


def test_throughput_is_the_median_of_the_runs_after_one_warm_up(stand_in: Callable[..., Any]) -> None:
    server = stand_in()
    found = single_stream(Client(server.url), "m", "a", tokens=20, runs=3, deadline=5)
    assert len(server.requests) == 4
    assert found.tok_s == sorted(run.tok_s for run in found.runs)[1]
    assert found.tokens == 60
    assert set(found.document()) == {"tokens", "seconds", "tok_s", "runs"}
