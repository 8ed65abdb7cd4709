"""Refuses a DSpark draft whose expert weights did not all arrive, or that was built for another kind of expert.

Both faults load without an error and show only as an acceptance near 1.0. Judges by the names that were loaded and
by the experts' quantisation method alone: raw parameters may already be repacked when this runs.
"""

from collections.abc import Collection
from typing import Any

from vllm.logger import init_logger

logger = init_logger("vllm.hallmark")

# What each method expects the checkpoint to hold; a method that is not here (online quantisation) is not judged.
_KINDS = {
    "ModelOptNvFp4FusedMoE": "NVFP4",
    "Mxfp4MoEMethod": "MXFP4",
    "Fp8MoEMethod": "FP8",
}
# The scales that tell the kinds apart, the most telling first: NVFP4 experts have `_weight_scale` as well.
_SCALES = {
    "NVFP4": ("_weight_scale_2", "_weight_scale"),
    "FP8": ("_weight_scale_inv",),
    "MXFP4": ("_weight_scale",),
}
# The halves of the shared experts: modules of their own, or parameters beside the routed ones.
_SHARED = ("gate_up_proj", "down_proj")
_FUSED_SHARED = ("shared_l1", "shared_l2")


def check_draft_experts(stages: Collection[Any], loaded: Collection[str]) -> None:
    """Check every draft stage against the parameter names `loaded`, and log each stage's quantisation method.

    Raises RuntimeError that names all stages and weight families at fault.
    """
    faults = []
    for i, stage in enumerate(stages):
        names = [name for name in loaded if name.startswith(f"model.layers.{i}.ffn.")]
        shared = [name for name in names if ".shared_experts." in name or ".experts.shared_" in name]
        routed = [name for name in names if ".ffn.experts." in name and name not in shared]
        method = _method(stage.ffn.experts)
        kind = _kind(routed)
        logger.info_once("DSpark draft stage %d: experts built with %s, %s weights loaded", i, method, kind)
        if not routed:
            faults.append(f"stage {i}: no routed expert weights were loaded")
        elif _KINDS.get(method, kind) != kind:
            faults.append(f"stage {i}: the experts were built with {method}, but the checkpoint's are {kind}")
        elif absent := _absent(routed, kind):
            faults.append(f"stage {i}: of the routed expert weights, {', '.join(absent)} were not loaded")
        if _has_shared_experts(stage.ffn):
            halves = _SHARED if stage.ffn.shared_experts is not None else _FUSED_SHARED
            missing = [half for half in halves if not any(f".{half}" in name for name in shared)]
            if not shared:
                faults.append(f"stage {i}: no shared expert weights were loaded")
            elif missing:
                faults.append(f"stage {i}: of the shared expert weights, {', '.join(missing)} were not loaded")
    if faults:
        raise RuntimeError(f"DSpark draft refused: {'; '.join(faults)}")


def _method(experts: Any) -> str:
    # Mega-MoE experts are one module without a quantisation method; its class says as much.
    routed = getattr(experts, "routed_experts", experts)
    return type(getattr(routed, "quant_method", routed)).__name__


def _kind(routed: Collection[str]) -> str:
    """The kind of expert whose scales were loaded."""
    for kind, suffixes in _SCALES.items():
        if any(name.endswith(suffixes[0]) for name in routed):
            return kind
    return "unscaled" if routed else "no"


def _absent(routed: Collection[str], kind: str) -> list[str]:
    """The parameters that experts of this kind have and that no loaded name ends with."""
    wanted = [f"{half}{part}" for half in ("w13", "w2") for part in ("_weight", *_SCALES.get(kind, ()))]
    return [parameter for parameter in wanted if not any(name.endswith(f".{parameter}") for name in routed)]


def _has_shared_experts(ffn: Any) -> bool:
    # When they are fused into the routed launch, the module of their own is None.
    return ffn.shared_experts is not None or getattr(ffn.experts, "has_fused_shared_experts", False)
