"""Loads a model with the real vLLM of this interpreter and says what is held: `python witness.py MODEL RANKS PORT`.

One rank is a whole engine, whose log says how many tokens its cache has. Several are processes that load their shards
through vLLM's own loader, in a process group of their own; an engine would need a NUMA node for each.
"""

import importlib
import json
import multiprocessing
import os
import sys
from typing import Any


def held(model: Any) -> int:
    """Bytes of all parameters and buffers of a loaded model."""
    tensors = {id(it): it.numel() * it.element_size() for it in (*model.parameters(), *model.buffers())}
    return sum(tensors.values())


def engine(model: str) -> list[int]:
    from vllm import LLM

    llm = LLM(model=model, dtype="float32", enforce_eager=True, max_model_len=1024)
    # By a name under which the engine's processes can import it too.
    found: list[int] = llm.apply_model(importlib.import_module("witness").held)
    return found


def shard(model: str, rank: int, ranks: int, port: str, told: Any) -> None:
    from vllm.config import set_current_vllm_config
    from vllm.distributed import init_distributed_environment, initialize_model_parallel
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader import get_model

    args = EngineArgs(
        model=model, dtype="float32", enforce_eager=True, tensor_parallel_size=ranks, distributed_executor_backend="mp"
    )
    config = args.create_engine_config()
    with set_current_vllm_config(config):
        init_distributed_environment(ranks, rank, f"tcp://127.0.0.1:{port}", rank, "gloo")
        initialize_model_parallel(ranks)
        told.put((rank, held(get_model(vllm_config=config))))


def shards(model: str, ranks: int, port: str) -> list[int]:
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    processes = [context.Process(target=shard, args=(model, rank, ranks, port, told)) for rank in range(ranks)]
    for process in processes:
        process.start()
    found = dict(told.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    return [found[rank] for rank in range(ranks)]


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    # vLLM's log goes where the test reads it.
    os.dup2(2, 1)
    model, ranks, port = sys.argv[1:]
    print(json.dumps(engine(model) if ranks == "1" else shards(model, int(ranks), port)), file=out, flush=True)


if __name__ == "__main__":
    main()
