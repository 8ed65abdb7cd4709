"""The speculative config's MoE backend reaches the draft's layers, and one that cannot run is refused at once."""

from typing import Any

from tests.proofs.case import Case

PATCH = "dspark-moe-backend"

RELEASED = {"trunk": "triton", "draft": "triton", "bad trunk": "accepted", "bad draft": "accepted"}
OLD = "Leave it out, or write 'marlin'; 'b12x' exists from 0.29.0 on."
NEW = "Write 'b12x' instead."


def _patched(instead: str) -> Any:
    reason = f"'flashinfer_b12x' cannot run DeepSeek V4 experts: it has no SwiGLU clamp and no MXFP4. {instead}"
    return {
        "trunk": "triton",
        "draft": "marlin",
        "bad trunk": f"--moe-backend: {reason}",
        "bad draft": f"moe_backend in the speculative config: {reason}",
    }


CASES = [
    Case(("0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0"), released=RELEASED, patched=_patched(OLD)),
    Case(("0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"), released=RELEASED, patched=_patched(NEW)),
]


def observe() -> Any:
    """The backends that trunk and draft layers find, and what becomes of `flashinfer_b12x` in either place."""
    from tests.proofs import drafts

    def refused(kind: str, **backends: str) -> str:
        folder = drafts.checkpoint(kind)
        try:
            drafts.vllm_config(folder, "dspark", draft=folder, **backends)
        except ValueError as error:
            return drafts.reason(error)
        return "accepted"

    folder = drafts.checkpoint("hybrid")
    config = drafts.vllm_config(folder, "dspark", draft=folder, moe_backend="triton", draft_moe_backend="marlin")
    draft = drafts.draft_config(config)
    return {
        "trunk": config.kernel_config.moe_backend,
        "draft": draft.kernel_config.moe_backend,
        # A trunk of NVFP4 with a clamp, and a draft of MXFP4.
        "bad trunk": refused("nvfp4", moe_backend="flashinfer_b12x"),
        "bad draft": refused("hybrid", draft_moe_backend="flashinfer_b12x"),
    }
