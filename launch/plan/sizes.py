"""What `fit` asks of the vLLM in an image or environment, and what its answer means for each GPU. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from launch.plan.group import RankPlan
from recipe.config.flags import flags
from recipe.config.models import Cluster, Hardware, Profile
from recipe.errors import Refused

_GIB = 2**30
# Lines that vLLM writes once it has measured: on GPUs, on CPUs by a setting, on CPUs by itself.
_LOGGED = re.compile(
    r"Available KV cache memory: (?P<gpu>[0-9.]+) GiB|(?:Explicitly|Auto) set \((?P<cpu>[0-9.]+)/[0-9.]+\)? GiB"
)
_TOKENS = re.compile(r"KV cache size: ([0-9,]+) tokens")


@dataclass(frozen=True)
class Measured:
    """What ranks that run wrote: bytes for the cache (to two digits of a GiB, the smallest rank's), tokens of it."""

    available: int | None
    tokens: int | None


@dataclass(frozen=True)
class Fit:
    """One group's sizes. `gpus`: one for each rank of an engine, as JSON values; `problem`: why vLLM would refuse to
    start however much of the range is free."""

    gpus: list[dict[str, Any]]
    source: str
    max_model_len: int
    cache_dtype: str
    checkpoint_bytes: int
    measured: Measured
    problem: str | None

    def to_json(self) -> dict[str, Any]:
        logged = {"available_bytes": self.measured.available, "pool_tokens": self.measured.tokens}
        return {**vars(self), "measured": logged}


def request(
    profile: Profile, hardware: Hardware, head: RankPlan, available: int | None, memory: int | None
) -> dict[str, Any]:
    """The question about the head's plan. Errors: Refused for what cannot be sized."""
    copies = profile.size("data-parallel-size") * profile.size("prefill-context-parallel-size")
    if copies > 1:
        raise Refused(
            "groups with data parallel or prefill context parallel ranks cannot be sized",
            hint="set data-parallel-size to 1 for an estimate: each copy holds at most that much",
        )
    beside = hardware.beside_gib
    start = len(profile.entrypoint)
    # Without the flags that name ports and other nodes: one process asks for all ranks.
    return {
        "argv": [head.argv[start], *flags(profile.serve)],
        "device": hardware.device,
        "capability": [int(part) for part in hardware.capability.split(".")] if hardware.capability else None,
        "gpus": profile.ranks,
        "memory": memory,
        "available": available,
        "beside": [int(part * _GIB) for part in reversed(beside)] if beside else None,
    }


def fit(answer: Mapping[str, Any], cluster: Cluster, measured: Measured) -> Fit:
    """What the answer says about each GPU of the cluster."""
    pools = answer["pools"]
    tokens = [pool["tokens"] for pool in pools]
    best = pools[-1] if pools else None
    each = len(answer["ranks"]) // len(cluster.nodes) or 1
    gpus = [
        {
            "node": cluster.nodes[min(number // each, len(cluster.nodes) - 1)].name,
            "rank": number,
            "weights_bytes": rank["weights_bytes"],
            "draft_bytes": rank["draft_bytes"],
            "bytes_per_token": best["bytes_per_token"] if best else None,
            "pool_tokens": tokens[0] if tokens else None,
            "pool_tokens_range": tokens if tokens else None,
            "available_bytes": [pool["available"] for pool in pools],
            "caches": rank["caches"],
        }
        for number, rank in enumerate(answer["ranks"])
    ]
    return Fit(
        gpus,
        answer["source"],
        answer["max_model_len"],
        answer["cache_dtype"],
        answer["checkpoint_bytes"],
        measured,
        best["problem"] if best else None,
    )


def measured(logs: Iterable[str]) -> Measured:
    """What the ranks' logs say; the last line of each counts."""
    available, tokens = [], []
    for text in logs:
        found = [float(match["gpu"] or match["cpu"]) for match in _LOGGED.finditer(text)]
        counted = [int(match[1].replace(",", "")) for match in _TOKENS.finditer(text)]
        available += [int(value * _GIB) for value in found[-1:]]
        tokens += counted[-1:]
    return Measured(min(available, default=None), min(tokens, default=None))
