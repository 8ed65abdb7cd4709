"""The sliding-window cache gets the 584-byte slots of fp8_ds_mla; without the quantisation mode, 512-byte ones."""

from typing import Any

from tests.proofs import dsv4
from tests.proofs.case import Case

PATCH = "dsv4-swa-kv-quant-mode"
CASES = [
    Case(
        ("0.23.1rc1.dev788",),
        released={"page": 37440, "slots": {"v2": [3, 64, 512], "v1": [3, 64, 512]}},
        patched={"page": 37440, "slots": {"v2": [3, 64, 584], "v1": [3, 64, 584]}},
    ),
]


def observe() -> Any:
    """Bytes of a page of 64 tokens, and the shape of three pages in both runners."""
    spec = dsv4.sliding_window_spec()
    return {"page": spec.page_size_bytes, "slots": dsv4.shapes(spec, dsv4.sliding_window_backend())}
