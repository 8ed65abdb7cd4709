"""Looks into a running engine of this process: the shapes of its caches, and which modules repeat themselves.

Needs vLLM and torch.
"""

from typing import Any


def caches(llm: Any) -> list[dict[str, Any]]:
    """The groups of caches: the kind of their spec, how many layers, bytes a page, and the shape and element type of
    the tensors (the last dimension of a DeepSeek-V4 one is the bytes of a slot)."""
    config = llm.llm_engine.vllm_config
    tensors = config.compilation_config.static_forward_context
    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    found = []
    for group in scheduler.kv_cache_config.kv_cache_groups:
        shapes = sorted({_shape(tensors[name].kv_cache) for name in group.layer_names if name in tensors})
        spec = group.kv_cache_spec
        found.append(
            {
                "spec": type(spec).__name__,
                "layers": len(group.layer_names),
                "page_bytes": spec.page_size_bytes,
                "tensors": shapes,
            }
        )
    return [*found, {"blocks": scheduler.kv_cache_config.num_blocks}]


def modules(llm: Any, prompt: dict[str, list[int]], times: int = 3) -> dict[str, Any]:
    """The trunk's modules whose output for `prompt` is not the same to the bit in all of `times` runs.

    Returns {"modules": how many were looked at, "calls": of them, "first": names in the order of the calls, at most
    twelve}.
    """
    from vllm import SamplingParams  # type: ignore[import-not-found,unused-ignore]

    model = llm.llm_engine.model_executor.driver_worker.model_runner.model
    runs = []
    for _ in range(times):
        seen: list[tuple[str, int]] = []
        handles = [module.register_forward_hook(_watch(name, seen)) for name, module in model.named_modules() if name]
        llm.reset_prefix_cache()
        sampling = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True, detokenize=False)
        llm.generate([prompt], sampling, use_tqdm=False)
        for handle in handles:
            handle.remove()
        runs.append(seen)
    names = [name for name, _ in runs[0]]
    alike = all([name for name, _ in run] == names for run in runs)
    differing = [
        f"call {index}: {calls[0][0]}"
        for index, calls in enumerate(zip(*runs, strict=False))
        if len({digest for _, digest in calls}) > 1
    ]
    return {"modules": len(set(names)), "calls": len(names), "same_calls": alike, "first": differing[:12]}


def _watch(name: str, seen: list[tuple[str, int]]) -> Any:
    def hook(module: Any, given: Any, output: Any) -> None:
        seen.append((name, sum(_digest(tensor) for tensor in _tensors(output))))

    return hook


def _tensors(output: Any) -> list[Any]:
    if hasattr(output, "data_ptr"):
        return [output]
    return [tensor for part in output for tensor in _tensors(part)] if isinstance(output, tuple | list) else []


def _digest(tensor: Any) -> int:
    import torch  # type: ignore[import-not-found,unused-ignore]

    data = tensor.detach().contiguous().view(torch.uint8).flatten().long()
    weights = torch.arange(1, data.numel() + 1, device=data.device) % 65521
    return int((data * weights).sum())


def _shape(cache: Any) -> str:
    cache = cache[0] if isinstance(cache, list | tuple) else cache
    return f"{tuple(cache.shape)} {str(cache.dtype).removeprefix('torch.')}"
