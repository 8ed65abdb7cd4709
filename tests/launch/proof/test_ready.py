"""Ready means that a batch of real completions came back."""

from collections.abc import Callable
from typing import Any

from launch.proof.ready import probe


def test_a_server_that_completes_a_batch_is_ready(stand_in: Callable[..., Any]) -> None:
    server = stand_in()
    found = probe(server.url, "m", n=3, tokens=12, deadline=5)
    assert found.ok
    assert [body["max_tokens"] for body in server.requests] == [12, 12, 12]
    assert len({body["prompt"] for body in server.requests}) == 3


def test_models_and_health_alone_do_not_make_it_ready(stand_in: Callable[..., Any]) -> None:
    """A7: an old file in the draft's place shows at the first answer only."""
    found = probe(stand_in(status=500).url, "m", deadline=5)
    assert not found.ok
    assert "HTTP 500" in found.reason


def test_short_answers_do_not_make_it_ready(stand_in: Callable[..., Any]) -> None:
    found = probe(stand_in(tokens=1).url, "m", deadline=5)
    assert not found.ok
    assert "1 tokens instead of 10" in found.reason


def test_a_hanging_server_is_not_ready_after_the_deadline(stand_in: Callable[..., Any]) -> None:
    found = probe(stand_in(hangs=True).url, "m", deadline=0.2)
    assert not found.ok
    assert "did not answer within 0.2 s" in found.reason


def test_a_port_that_refuses_is_not_ready_and_says_which(stand_in: Callable[..., Any]) -> None:
    server = stand_in()
    server.stop()
    found = probe(server.url, "m")
    assert not found.ok
    assert f"127.0.0.1:{server.server_port}" in found.reason
    assert "refused" in found.reason
