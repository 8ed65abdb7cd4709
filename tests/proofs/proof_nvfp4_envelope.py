"""`nvfp4_ds_mla` means the 584-byte slots of fp8_ds_mla for DeepSeek V4."""

from types import SimpleNamespace
from typing import Any

from tests.proofs.case import Case

PATCH = "dsv4-nvfp4-envelope"
CASES = [
    Case(("0.33.0",), released="ValueError", patched=["fp8_ds_mla", "torch.uint8"]),
]


def observe() -> Any:
    """What the resolver makes of the name on the packed layout, or the error that it raises."""
    from vllm.models.deepseek_v4.attention import _resolve_dsv4_kv_cache_dtype

    try:
        return _resolve_dsv4_kv_cache_dtype(True, "nvfp4_ds_mla", SimpleNamespace(cache_dtype="nvfp4_ds_mla"))
    except (AssertionError, ValueError) as error:
        return type(error).__name__
