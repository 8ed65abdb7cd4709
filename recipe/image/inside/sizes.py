"""What a rank of this vLLM would hold in memory, by its own code and without its device: weights, cache pages, tokens.

`python3 sizes.pyz REQUEST`: REQUEST is JSON in base64; the last line on standard output is the answer, JSON. The
request: `argv` (model and flags of rank 0), `device`, `capability`, `gpus` (of a node), `memory` (bytes of a GPU),
`available` (bytes for the cache that are known; null when they are not) and `beside` (most and least bytes that a rank
takes beside weights and cache, for a range; null without one).
"""

from __future__ import annotations

import base64
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from . import checkpoint, device, pool, ranks


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """The sizes as JSON values: `ranks` (one for each GPU), `pools` (one for each of `available`), `max_model_len`.

    vLLM must not be imported yet where `device` is not the CPU.
    """
    device.stand_in(asked["device"], asked["capability"], asked["gpus"], asked["memory"])
    config = ranks.engine_config(asked["argv"])
    built = [ranks.build(config, rank) for rank in range(ranks.count(config))]
    available, source = _available(asked, config, max(rank.weights for rank in built))
    pools = [pool.size(config, [rank.specs for rank in built], one) for one in available]
    return {
        "ranks": [rank.to_json() for rank in built],
        "pools": [one.to_json() for one in pools],
        "source": source,
        "checkpoint_bytes": checkpoint.stored(Path(config.model_config.model)),
        "max_model_len": config.model_config.max_model_len,
        "cache_dtype": str(config.cache_config.cache_dtype),
        "utilization": config.cache_config.gpu_memory_utilization,
    }


def _available(asked: dict[str, Any], config: Any, weights: int) -> tuple[list[int], str]:
    """Bytes for the cache of a rank, smallest first, and how they are known."""
    if asked["available"] is not None:
        return [asked["available"]], "given"
    setting = getattr(config.cache_config, "kv_cache_memory_bytes", None)
    if setting:
        return [int(setting)], "setting"
    if asked["beside"] is None or asked["memory"] is None:
        return [], "unknown"
    room = int(asked["memory"] * config.cache_config.gpu_memory_utilization) - weights
    return [max(0, room - beside) for beside in asked["beside"]], "estimate"


def main() -> int:
    """Answer one request. Returns the exit status; what stands in the way is answered too, as `error`."""
    asked = json.loads(base64.b64decode(sys.argv[1]))
    out = os.fdopen(os.dup(1), "w")
    # vLLM logs to standard output.
    os.dup2(2, 1)
    try:
        found = answer(asked)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:400]}", "where": where}
    print(json.dumps(found), file=out, flush=True)
    return 1 if "error" in found else 0
