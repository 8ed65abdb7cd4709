"""Starts the real vLLM of this interpreter, one engine after the other, and says what its ranks hold.

`python witness.py ENGINE…`: each is JSON, arguments of vllm.LLM. After each engine one line `held: [{"weights",
"cache"}, …]`, bytes by rank; vLLM's log is what comes before it. Engines of several ranks come first: their workers are
forks of this process, whose threads they would miss.
"""

import json
import multiprocessing
import os
import sys
from typing import Any

# The engine's core runs in this process; a function is sent to its workers.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"


def count_loaded() -> None:
    """Count before the CPU's kernels take the matrices out of torch's sight (oneDNN packs them)."""
    from vllm.model_executor.model_loader import base_loader

    process = base_loader.process_weights_after_loading

    def count_and_process(model: Any, *words: Any) -> None:
        tensors = [*model.parameters(), *model.buffers()]
        model.loaded_bytes = sum({id(tensor): tensor.numel() * tensor.element_size() for tensor in tensors}.values())
        process(model, *words)

    base_loader.process_weights_after_loading = count_and_process


def held(worker: Any) -> dict[str, int]:
    """Bytes of one rank: of its model as loaded, and of the storage of its caches."""
    caches = {cache.untyped_storage().data_ptr(): cache.untyped_storage() for cache in worker.model_runner.kv_caches}
    cache = sum(storage.nbytes() for storage in caches.values())
    return {"weights": worker.model_runner.model.loaded_bytes, "cache": cache}


def main() -> None:
    from vllm import LLM
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory
    from vllm.v1.executor import multiproc_executor

    count_loaded()
    # A new process would import vLLM again, for ten seconds.
    multiproc_executor.get_mp_context = lambda: multiprocessing.get_context("fork")
    for engine in sys.argv[1:]:
        llm = LLM(enforce_eager=True, skip_tokenizer_init=True, **json.loads(engine))
        print(f"held: {json.dumps(llm.collective_rpc(held))}", flush=True)
        llm.llm_engine.engine_core.shutdown()
        del llm
        cleanup_dist_env_and_memory()


if __name__ == "__main__":
    main()
