"""Whether a group that served still does: one token comes back, or its counters move.

`/health` says 200 for minutes after a rank is gone, and exit statuses say 0. An engine that has more work than it can
take answers late, which is no fault: while its counters of tokens and steps move it is busy.
"""

import socket
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from launch.proof import metrics
from launch.proof.client import ApiError, Client, TimedOut
from launch.proof.ready import CONNECT_SECONDS

# One token of an idle group takes well below a second; a step with a long prompt some seconds.
BEAT_SECONDS = 8.0
_METRICS_SECONDS = 3.0
# Any of them moves when the engine does anything: it made tokens, read a prompt, or took a step.
_MOVING = (metrics.GENERATED, "vllm:prompt_tokens_total", metrics.STEPS)


@dataclass(frozen=True)
class Heartbeat:
    """`answers`: a token came back; `busy`: none did in time, but counters moved; `silent`: neither, for a reason."""

    state: Literal["answers", "busy", "silent"]
    reason: str = ""

    @property
    def alive(self) -> bool:
        return self.state != "silent"


def beat(base_url: str, model: str, *, deadline: float = BEAT_SECONDS, api_key: str | None = None) -> Heartbeat:
    """Ask for one token within `deadline` seconds. Never raises for what the server does."""
    address = urlsplit(base_url)
    try:
        with socket.create_connection((address.hostname or "", address.port or 80), CONNECT_SECONDS):
            pass
    except OSError as error:
        return Heartbeat("silent", f"nothing answers at {address.netloc}: {error.strerror or error}")
    with Client(base_url, api_key=api_key) as client:
        before = _counters(client)
        try:
            client.complete(model, "1 is followed by", tokens=1, deadline=deadline)
        except TimedOut as error:
            after = _counters(client)
            if before is not None and after is not None and after > before:
                return Heartbeat(
                    "busy", f"no token within {deadline:g} s, but {after - before} others were made or read"
                )
            return Heartbeat("silent", f"no token comes back, and its counters stand still: {error}")
        except ApiError as error:
            return Heartbeat("silent", f"no token comes back: {error}")
    return Heartbeat("answers")


def _counters(client: Client) -> int | None:
    try:
        found = metrics.samples(client.metrics(deadline=_METRICS_SECONDS))
        return sum(metrics.total(name, found) or 0 for name in _MOVING)
    except ApiError:
        return None
