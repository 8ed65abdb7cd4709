"""Reading vLLM's counters around requests of one's own, so that their interval holds exactly these requests."""

import time

from launch.proof import metrics
from launch.proof.client import Client
from launch.proof.metrics import Sample

# The counters follow an answer's last token by one step of the engine's output loop; this is ample for it.
SETTLE_SECONDS = 5.0
SETTLE_EVERY = 0.1
DEADLINE = 30.0


def read(client: Client) -> list[Sample]:
    """All samples of /metrics now. Errors: ApiError."""
    return metrics.samples(client.metrics(deadline=DEADLINE))


def quiet(client: Client) -> list[Sample]:
    """The samples once the generated tokens stand still, so that the end of an earlier answer is not taken for ours.

    When others keep them moving, the interval will show it. Errors: ApiError.
    """
    ends = time.monotonic() + SETTLE_SECONDS
    found = read(client)
    while time.monotonic() < ends:
        time.sleep(SETTLE_EVERY)
        earlier, found = found, read(client)
        if metrics.total(metrics.GENERATED, earlier) == metrics.total(metrics.GENERATED, found):
            break
    return found


def settled(client: Client, before: list[Sample], own: int) -> tuple[list[Sample], int | None]:
    """The samples once they hold `own` more tokens than `before`, and how many more they hold.

    More than `own` means that other requests landed; None means that the server does not count. Errors: ApiError.
    """
    start = metrics.total(metrics.GENERATED, before)
    ends = time.monotonic() + SETTLE_SECONDS
    while True:
        after = read(client)
        now = metrics.total(metrics.GENERATED, after)
        served = None if start is None or now is None else now - start
        if served is None or served >= own or time.monotonic() > ends:
            return after, served
        time.sleep(SETTLE_EVERY)
