"""Measures prefill alone: prompts of exact lengths that no cache has seen, one token out."""

import random
import secrets
from collections.abc import Callable, Sequence

from launch.proof import counters, metrics
from launch.proof.bench.figures import Prefill
from launch.proof.client import ApiError, Client

# Its tokens, shuffled, are the prompts: any text of common words will do.
_TEXT = (
    "The keeper of the old lighthouse counted ships, winds and seasons in a ledger; when the fog came he rang the "
    "bell, lit every lamp and waited for an answer from the grey water below the rocks of the northern harbour."
)
_HITS = "vllm:prefix_cache_hits_total"
_SECONDS = 600.0


def run(
    client: Client, model: str, lengths: Sequence[int], longest: int | None, say: Callable[[str], None]
) -> list[Prefill]:
    """Measure each length in tokens; one that does not fit `longest` is skipped and says so. Errors: ApiError."""
    if not lengths:
        return []
    try:
        words = client.tokenize(model, _TEXT, deadline=60)
    except ApiError as error:
        return [Prefill(length, skipped=f"no prompt of an exact length can be made: {error}") for length in lengths]
    return [_one(client, model, length, words, longest, say) for length in lengths]


def _one(
    client: Client, model: str, length: int, words: Sequence[int], longest: int | None, say: Callable[[str], None]
) -> Prefill:
    if longest is not None and length >= longest:
        return Prefill(length, skipped=f"the server takes {longest} tokens in all")
    say(f"prefill of {length} tokens")
    # Drawn anew each time: what an earlier benchmark sent may still be in the prefix cache.
    draw = random.Random(secrets.randbits(64))
    before = metrics.total(_HITS, counters.quiet(client))
    try:
        answer = client.complete(
            model, [draw.choice(words) for _ in range(length)], tokens=1, deadline=_SECONDS, to_the_end=True
        )
    except ApiError as error:
        return Prefill(length, skipped=str(error))
    after = metrics.total(_HITS, counters.read(client))
    cached = None if before is None or after is None else after - before
    return Prefill(answer.prompt_tokens, answer.seconds, cached)
