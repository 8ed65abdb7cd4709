"""Starts the real vLLM of this interpreter, one engine after the other, and says what its ranks hold.

`python witness.py ENGINE…`: each is JSON, arguments of vllm.LLM. After each engine one line `held: [{"weights",
"cache"}, …]`, bytes by rank; vLLM's log is what comes before it.
"""

import json
import os
import sys
from typing import Any

# The engine's core runs in this process; a function is sent to its workers.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"

# A worker is a new process that runs this file up to here, so that it counts as well.
from vllm.model_executor.model_loader import base_loader  # noqa: E402

_process = base_loader.process_weights_after_loading


def _count_and_process(model: Any, *words: Any) -> None:
    """The CPU's kernels then take the matrices out of torch's sight (oneDNN packs them)."""
    held = {id(tensor): tensor.numel() * tensor.element_size() for tensor in [*model.parameters(), *model.buffers()]}
    model.loaded_bytes = sum(held.values())
    _process(model, *words)


base_loader.process_weights_after_loading = _count_and_process


def held(worker: Any) -> dict[str, int]:
    """Bytes of one rank: of its model as loaded, and of the storage of its caches."""
    caches = {cache.untyped_storage().data_ptr(): cache.untyped_storage() for cache in worker.model_runner.kv_caches}
    cache = sum(storage.nbytes() for storage in caches.values())
    return {"weights": worker.model_runner.model.loaded_bytes, "cache": cache}


def main() -> None:
    from vllm import LLM
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    for engine in sys.argv[1:]:
        llm = LLM(enforce_eager=True, skip_tokenizer_init=True, **json.loads(engine))
        print(f"held: {json.dumps(llm.collective_rpc(held))}", flush=True)
        llm.llm_engine.engine_core.shutdown()
        del llm
        cleanup_dist_env_and_memory()


if __name__ == "__main__":
    main()
