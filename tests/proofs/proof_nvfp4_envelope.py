"""`nvfp4_ds_mla` of DeepSeek V4 is the 584-byte slot of fp8_ds_mla, no smaller, and says so; without one, refused."""

import logging
from types import SimpleNamespace
from typing import Any

from tests.proofs import dsv4
from tests.proofs.case import Case

PATCH = "dsv4-nvfp4-envelope"
SAID = "nvfp4_ds_mla is stored as fp8_ds_mla for DeepSeek V4: 584 bytes per token, no capacity gain over fp8."
PATCHED = {
    "packed": ["fp8_ds_mla", "torch.uint8"],
    "written back": "fp8_ds_mla",
    "said": [SAID],
    "plain rows": "ValueError: nvfp4_ds_mla needs the fp8_ds_mla layout, which this attention backend of DeepSeek V4 "
    "does not have. Use --kv-cache-dtype fp8.",
}
# Rows of bfloat16 for a name that asks for four bits.
ROWS = ["nvfp4_ds_mla", "torch.bfloat16"]


def _released(error: str) -> dict[str, Any]:
    return {"packed": error, "written back": "nvfp4_ds_mla", "said": [], "plain rows": ROWS}


CASES = [
    Case(
        ("0.23.0",),
        _released("AssertionError: DeepseekV4 FlashMLA fp8 layout only supports fp8 kv-cache, got nvfp4_ds_mla"),
        PATCHED,
    ),
    Case(
        ("0.24.0", "0.25.0", "0.26.0", "0.27.1", "0.28.0", "0.29.0"),
        _released("AssertionError: DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got nvfp4_ds_mla"),
        PATCHED,
    ),
    Case(
        ("0.30.0", "0.31.0", "0.32.0", "0.33.0"),
        _released(
            "ValueError: DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got nvfp4_ds_mla. Please set "
            "`--kv-cache-dtype fp8` or select a backend that supports bfloat16 KV cache."
        ),
        PATCHED,
    ),
]


def observe() -> Any:
    """What the real resolver makes of the name on both layouts, what it writes back, and what it logs."""
    from vllm.models.deepseek_v4 import attention

    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger(attention.__name__).addHandler(handler)
    config = SimpleNamespace(cache_dtype="nvfp4_ds_mla")

    def resolve(packed: bool) -> Any:
        return dsv4.attempt(
            lambda: [str(part) for part in attention._resolve_dsv4_kv_cache_dtype(packed, "nvfp4_ds_mla", config)]
        )

    return {"packed": resolve(True), "written back": config.cache_dtype, "said": said, "plain rows": resolve(False)}
