"""A sliding-window spec that was rebuilt without its quantisation mode keeps its slots; skipped layers theirs."""

from types import SimpleNamespace
from typing import Any

from tests.proofs import dsv4
from tests.proofs.case import Case

PATCH = "dsv4-cache-auto-guard"
SKIPPED = {"mla": {"v2": [3, 64, 512], "v1": [3, 64, 512]}, "full": {"v2": ["auto"], "v1": ["auto"]}}
CASES = [
    Case(
        ("0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1"),
        released={"rebuilt": {"v2": [3, 256, 512], "v1": [3, 256, 512]}, "skipped": SKIPPED},
        patched={"rebuilt": {"v2": [3, 256, 584], "v1": [3, 256, 584]}, "skipped": SKIPPED},
    ),
    # 0.28 keeps every field when it rebuilds the spec: no patch, and no fault.
    Case(
        ("0.28.0",),
        released={"rebuilt": {"v2": [3, 256, 584], "v1": [3, 256, 584]}, "skipped": SKIPPED},
        patched={"rebuilt": {"v2": [3, 256, 584], "v1": [3, 256, 584]}, "skipped": SKIPPED},
        unchanged=True,
    ),
]


def observe() -> Any:
    """Shapes of a sliding-window cache after --disable-hybrid-kv-cache-manager rebuilt its spec, of a skipped MLA
    layer beside an fp8 cache, and the type that a skipped layer without a type of its own is asked for."""
    import torch
    from vllm.v1.core.kv_cache_utils import unify_hybrid_kv_cache_specs
    from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec

    specs = {"main": dsv4.main_spec(), "window": dsv4.sliding_window_spec()}
    unify_hybrid_kv_cache_specs(specs)
    mla = MLAAttentionSpec(
        block_size=64, num_kv_heads=1, head_size=dsv4.HEAD_DIM, dtype=torch.bfloat16, cache_dtype_str="auto"
    )
    full = FullAttentionSpec(block_size=64, num_kv_heads=1, head_size=64, dtype=torch.bfloat16)
    asked: list[str] = []

    def shape(blocks: int, block_size: int, heads: int, head_size: int, cache_dtype_str: str) -> tuple[int, ...]:
        asked.append(cache_dtype_str)
        return (blocks, 2, block_size, heads, head_size)

    recorder = SimpleNamespace(get_kv_cache_shape=shape)
    found = {}
    for runner in ("v2", "v1"):
        asked.clear()
        dsv4.RUNNERS[runner](full, recorder, "fp8")
        found[runner] = list(asked)
    return {
        "rebuilt": dsv4.shapes(specs["window"], dsv4.sliding_window_backend()),
        "skipped": {"mla": dsv4.shapes(mla, dsv4.main_backend()), "full": found},
    }
