"""DeepSeek V4's real cache specs and the runners' real code for them, called with as little around them as they read.

Runs inside the proofs' interpreter. Nothing here stands in for what a proof is about: stand-ins are only the objects
that carry the attributes which these functions read (`SimpleNamespace`), with the values of the real model.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

HEAD_DIM = 512
BLOCKS = 3


def attempt(call: Callable[[], Any]) -> Any:
    """What the call returns, or its error as `Type: message`."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main_spec(cache_dtype: str = "fp8_ds_mla") -> Any:
    """The spec of a layer's main cache, compressed by four, as the attention layer makes it."""
    import torch
    from vllm.models.deepseek_v4.attention import DeepseekV4Attention

    layer = SimpleNamespace(
        compress_ratio=4, kv_cache_dtype=cache_dtype, head_dim=HEAD_DIM, kv_cache_torch_dtype=torch.bfloat16
    )
    config = SimpleNamespace(cache_config=SimpleNamespace(block_size=256))
    return DeepseekV4Attention.get_kv_cache_spec(layer, config)


def sliding_window_spec(cache_dtype: str = "fp8_ds_mla") -> Any:
    """The spec of a layer's sliding-window cache, as the cache module makes it."""
    import torch
    from vllm.v1.attention.backends.mla.sparse_swa import DeepseekV4SWACache

    cache = SimpleNamespace(
        block_size=64,
        head_dim=HEAD_DIM,
        window_size=128,
        dtype=torch.uint8 if cache_dtype == "fp8_ds_mla" else torch.bfloat16,
        cache_config=SimpleNamespace(cache_dtype=cache_dtype),
    )
    return DeepseekV4SWACache.get_kv_cache_spec(cache, None)


def main_backend() -> Any:
    from vllm.models.deepseek_v4.sparse_mla import DeepseekV4FlashMLABackend

    return DeepseekV4FlashMLABackend


def sliding_window_backend() -> Any:
    from vllm.v1.attention.backends.mla.sparse_swa import DeepseekSparseSWABackend

    return DeepseekSparseSWABackend


def shapes(spec: Any, backend: Any, cache_dtype: str = "fp8_ds_mla") -> dict[str, Any]:
    """Shape of a layer's cache of three pages: by the runner of DSpark (v2), by the other one (v1)."""
    return {name: attempt(lambda run=run: run(spec, backend, cache_dtype)) for name, run in RUNNERS.items()}  # type: ignore[misc]


def _raw(spec: Any) -> dict[str, Any]:
    import torch

    return {"layer": torch.zeros(BLOCKS * spec.page_size_bytes, dtype=torch.int8)}


def _group(spec: Any, backend: Any) -> Any:
    return SimpleNamespace(kv_cache_spec=spec, kv_cache_group_id=0, layer_names=["layer"], backend=backend)


def _v2(spec: Any, backend: Any, cache_dtype: str) -> list[int]:
    from vllm.v1.worker.gpu.attn_utils import _reshape_kv_cache

    made = _reshape_kv_cache([_group(spec, backend)], _raw(spec), cache_dtype, [spec.block_size], {})
    return list(made["layer"].shape)


def _v1(spec: Any, backend: Any, cache_dtype: str) -> list[int]:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner = SimpleNamespace(
        kv_cache_config=SimpleNamespace(kv_cache_tensors=[]),
        _kv_cache_spec_attn_group_iterator=lambda: [_group(spec, backend)],
        runner_only_attn_layers=set(),
        cache_config=SimpleNamespace(cache_dtype=cache_dtype),
        _has_mixed_attention_kv_layout=lambda sizes: False,
    )
    return list(GPUModelRunner._reshape_kv_cache_tensors(runner, _raw(spec), [spec.block_size])["layer"].shape)


RUNNERS = {"v2": _v2, "v1": _v1}
