"""FlashInfer's sparse attention is refused where it has no kernels, by the function that chooses the class."""

from types import SimpleNamespace
from typing import Any

from tests.proofs import dsv4
from tests.proofs.case import Case

PATCH = "dsv4-sm90-flashinfer-guard"
FLASHMLA, FLASHINFER = "DeepseekV4FlashMLAAttention", "DeepseekV4FlashInferMLAAttention"
SM120 = "DeepseekV4FlashInferSM120Attention"
NONE = "ValueError: FLASHINFER_MLA_SPARSE_DSV4 has no kernels for compute capability"
LATER = "Use FLASHMLA_SPARSE_DSV4, or leave --attention-backend out."
OLD = "Leave --attention-backend out: DeepSeek V4 then runs on FlashMLA."


def _table(hopper: str, blackwell: str, spark: str, default: str) -> dict[str, dict[str, str]]:
    return {
        "9.0": {"default": FLASHMLA, "FLASHINFER_MLA_SPARSE_DSV4": hopper},
        "10.0": {"default": FLASHMLA, "FLASHINFER_MLA_SPARSE_DSV4": blackwell},
        "12.1": {"default": default, "FLASHINFER_MLA_SPARSE_DSV4": spark},
    }


CASES = [
    Case(
        ("0.23.0",),
        _table(FLASHINFER, FLASHINFER, FLASHINFER, FLASHMLA),
        _table(f"{NONE} 9.0. {OLD}", FLASHINFER, f"{NONE} 12.1. {OLD}", FLASHMLA),
    ),
    Case(
        (
            *("0.24.0", "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0"),
            *("0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"),
        ),
        _table(FLASHINFER, FLASHINFER, SM120, SM120),
        _table(f"{NONE} 9.0. {LATER}", FLASHINFER, SM120, SM120),
    ),
]


def observe() -> Any:
    """The attention class of a DeepSeek V4 layer by compute capability and backend, or the error."""
    import vllm.platforms
    from vllm.models.deepseek_v4.nvidia import model
    from vllm.platforms.interface import DeviceCapability
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    def chosen(capability: tuple[int, int], backend: str) -> Any:
        # The device is the one thing that is not here.
        platform = SimpleNamespace(get_device_capability=lambda: DeviceCapability(*capability))
        vllm.platforms.current_platform = platform
        model.current_platform = platform
        named = None if backend == "default" else AttentionBackendEnum[backend]
        config = SimpleNamespace(attention_config=SimpleNamespace(backend=named))
        return dsv4.attempt(lambda: model._select_dsv4_attn_cls(config).__name__)

    return {
        f"{major}.{minor}": {name: chosen((major, minor), name) for name in ("default", "FLASHINFER_MLA_SPARSE_DSV4")}
        for major, minor in ((9, 0), (10, 0), (12, 1))
    }
