"""Whether a group answers: the only proof is a batch of real completions (CONTRACT: Launch)."""

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

# Loopback and fabric addresses refuse or accept within a round trip.
CONNECT_SECONDS = 2.0


@dataclass(frozen=True)
class Probe:
    """`ok`, and otherwise what was missing, as one clause."""

    ok: bool
    reason: str


def probe(
    base_url: str,
    model: str,
    *,
    n: int = 2,
    tokens: int = 10,
    deadline: float = 60.0,
    api_key: str | None = None,
) -> Probe:
    """Ask for `n` completions of `tokens` tokens at once, each within `deadline` seconds.

    Costs one refused connection while nothing listens, so it may be called often. Never raises for what the
    server does.
    """
    address = urlsplit(base_url)
    try:
        with socket.create_connection(
            (address.hostname or "", address.port or (443 if address.scheme == "https" else 80)),
            CONNECT_SECONDS,
        ):
            pass
    except OSError as error:
        return Probe(False, f"nothing answers at {address.netloc}: {error.strerror or error}")

    from launch.proof.client import ApiError, Client, complete_together

    # Different prompts, so that none is answered from another's prefix cache.
    prompts = [f"{number} is followed by" for number in range(1, n + 1)]
    with Client(base_url, api_key=api_key) as client:
        answers = complete_together(client, model, prompts, tokens=tokens, deadline=deadline)
    for answer in answers:
        if isinstance(answer, ApiError):
            return Probe(False, f"a completion failed: {answer}")
        if answer.tokens < tokens:
            return Probe(False, f"a completion had {answer.tokens} tokens instead of {tokens}")
    return Probe(True, f"{n} completions of {tokens} tokens came back")
