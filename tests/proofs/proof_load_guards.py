"""The draft's own loader refuses a checkpoint that lacks a family of experts, or has another kind than was built."""

from collections.abc import Iterable
from typing import Any

from tests.proofs.case import Case
from tests.proofs.drafts import DSPARK, KINDS

PATCH = "dspark-load-guards"

WRONG = "stage {}: the experts were built with ModelOptNvFp4FusedMoE, but the checkpoint's are MXFP4"
RELEASED = {
    "native": "loaded",
    "nvfp4 throughout": "loaded",
    "stage 1 without routed experts": "loaded",
    "stage 2 without shared experts": "loaded",
    "stage 0 without one matrix of the shared experts": "loaded",
    "native experts in NVFP4 layers": "loaded",
    # vLLM's own strict look-up of parameters.
    "NVFP4 experts in native layers": "KeyError",
}
PATCHED = {
    **RELEASED,
    "stage 1 without routed experts": "DSpark draft refused: stage 1: no routed expert weights were loaded",
    "stage 2 without shared experts": "DSpark draft refused: stage 2: no shared expert weights were loaded",
    "stage 0 without one matrix of the shared experts": (
        "DSpark draft refused: stage 0: of the shared expert weights, down_proj were not loaded"
    ),
    "native experts in NVFP4 layers": f"DSpark draft refused: {'; '.join(WRONG.format(i) for i in range(3))}",
}
CASES = [
    Case(
        DSPARK,
        released=RELEASED,
        patched=PATCHED,
    )
]

SCALES = {
    "Mxfp4MoEMethod": ("weight_scale",),
    "ModelOptNvFp4FusedMoE": ("weight_scale", "weight_scale_2", "input_scale"),
}


def observe() -> Any:
    """What the real load_weights says to each checkpoint, on layers that have the right parameter names."""
    native, nvfp4 = KINDS["native"][1], KINDS["nvfp4"][1]
    return {
        "native": _load("Mxfp4MoEMethod", _names(native)),
        "nvfp4 throughout": _load("ModelOptNvFp4FusedMoE", _names(nvfp4)),
        "stage 1 without routed experts": _load("Mxfp4MoEMethod", _names(native, "mtp.1.ffn.experts.")),
        "stage 2 without shared experts": _load("Mxfp4MoEMethod", _names(native, "mtp.2.ffn.shared_experts.")),
        "stage 0 without one matrix of the shared experts": _load(
            "Mxfp4MoEMethod", _names(native, "mtp.0.ffn.shared_experts.w2.")
        ),
        "native experts in NVFP4 layers": _load("ModelOptNvFp4FusedMoE", _names(native)),
        "NVFP4 experts in native layers": _load("Mxfp4MoEMethod", _names(nvfp4)),
    }


def _names(parts: Iterable[str], without: str = "?") -> list[str]:
    from tests.proofs.drafts import EXPERTS, STAGES

    names = [
        f"mtp.{stage}.ffn.{module}.w{w}.{part}"
        for stage in range(STAGES)
        for module, kinds in (
            *((f"experts.{expert}", parts) for expert in range(EXPERTS)),
            ("shared_experts", ("weight", "scale")),
        )
        for w in (1, 2, 3)
        for part in kinds
    ]
    return [name for name in names if not name.startswith(without)]


def _load(method: str, names: list[str]) -> str:
    import torch

    draft = _draft(method)
    try:
        draft.load_weights((name, torch.zeros(1)) for name in names)
    except RuntimeError as error:
        return str(error)
    except KeyError:
        return "KeyError"
    return "loaded"


def _draft(method: str) -> Any:
    """The draft model with the real loader and without what the loader does not touch."""
    from types import SimpleNamespace

    import torch
    from torch import nn
    from vllm.models.deepseek_v4.nvidia import dspark

    from tests.proofs.drafts import EXPERTS, STAGES

    def module(**parameters: str) -> nn.Module:
        made = nn.Module()
        for name in parameters:
            parameter = nn.Parameter(torch.zeros(1), requires_grad=False)
            parameter.weight_loader = lambda *_, **__: True
            made.register_parameter(name, parameter)
        return made

    def stage() -> nn.Module:
        layer = nn.Module()
        layer.ffn = nn.Module()
        layer.ffn.use_mega_moe = layer.ffn.use_native_mega_moe = False
        layer.ffn.n_redundant_experts = 0
        layer.ffn.experts = nn.Module()
        layer.ffn.experts.routed_experts = module(
            **{f"{half}_{part}": "" for half in ("w13", "w2") for part in ("weight", *SCALES[method])}
        )
        layer.ffn.experts.routed_experts.quant_method = type(method, (), {})()
        layer.ffn.shared_experts = nn.Module()
        for name in ("gate_up_proj", "down_proj"):
            setattr(layer.ffn.shared_experts, name, module(weight="", weight_scale_inv=""))
        return layer

    class Draft(nn.Module):  # type: ignore[misc]
        load_weights = dspark.DSparkDeepseekV4ForCausalLM.load_weights
        _remap_dspark_name = dspark.DSparkDeepseekV4ForCausalLM._remap_dspark_name
        pad_shared_expert, quant_config = False, None

        def _finalize_moe(self) -> None: ...

        process_weights_after_loading = _finalize_moe

    for name, value in (("world_size", 1), ("rank", 0)):
        if hasattr(dspark, f"get_tensor_model_parallel_{name}"):
            setattr(dspark, f"get_tensor_model_parallel_{name}", lambda value=value: value)
    draft = Draft()
    draft.config = SimpleNamespace(n_routed_experts=EXPERTS, num_attention_heads=8, expert_dtype="fp4")
    draft.model = nn.Module()
    draft.model.layers = nn.ModuleList(stage() for _ in range(STAGES))
    draft.model.confidence_head = None
    return draft
