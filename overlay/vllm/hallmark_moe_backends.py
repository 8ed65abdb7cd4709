"""Gives the DSpark draft a MoE backend of its own, and refuses the one name that no DeepSeek-V4 expert can run on.

vLLM takes `moe_backend` in the speculative config and does nothing with it for DSpark. This module is imported while
`vllm.config` is still being made, so it imports nothing of it at the top.
"""

from typing import Any, get_args

from vllm.logger import init_logger

logger = init_logger("vllm.hallmark")

# Known to every release, but without a SwiGLU clamp and without MXFP4 in all of them.
UNUSABLE = "flashinfer_b12x"


def apply_draft_moe_backend(draft: Any) -> None:
    """Put the speculative config's `moe_backend` into the draft's VllmConfig, where the draft's layers look for it."""
    from vllm.config import replace

    backend = draft.speculative_config.moe_backend
    if backend is None:
        return
    draft.kernel_config = replace(draft.kernel_config, moe_backend=backend)
    logger.info_once("DSpark draft MoE backend: %s", backend)


def check_moe_backends(config: Any) -> None:
    """Refuse `flashinfer_b12x` for the experts of DeepSeek V4, the trunk's and the draft's, before anything starts.

    Only an NVFP4 checkpoint without a clamp could run on it. Errors: ValueError with the name to write instead.
    """
    model = config.model_config
    hf_config = model.hf_config if model is not None else None
    if getattr(hf_config, "model_type", None) != "deepseek_v4" or _clampless_nvfp4(hf_config):
        return
    speculative = config.speculative_config
    wrong = []
    if config.kernel_config.moe_backend == UNUSABLE:
        wrong.append("--moe-backend")
    if speculative is not None and speculative.moe_backend == UNUSABLE:
        wrong.append("moe_backend in the speculative config")
    if wrong:
        raise ValueError(
            f"{' and '.join(wrong)}: {UNUSABLE!r} cannot run DeepSeek V4 experts: it has no SwiGLU clamp and no MXFP4. "
            f"{_instead()}"
        )


def _clampless_nvfp4(hf_config: Any) -> bool:
    quantization = getattr(hf_config, "quantization_config", None) or {}
    nvfp4 = (quantization.get("moe_quant_algo") or "").upper() == "NVFP4"
    return nvfp4 and getattr(hf_config, "swiglu_limit", None) is None


def _instead() -> str:
    from vllm.config.kernel import MoEBackend

    if "b12x" in get_args(MoEBackend):
        return "Write 'b12x' instead."
    return "Leave it out, or write 'marlin'; 'b12x' exists from 0.29.0 on."
