"""The draft's quantisation config is an object of its own, and its layers get the classes that 0.28 gives them."""

from typing import Any

from tests.proofs.case import Case

PATCH = "dspark-draft-quant-config"
CLASSES = {
    "config": "DeepseekV4FP8Config",
    "experts": {"native": "Mxfp4MoEMethod", "nvfp4": "ModelOptNvFp4FusedMoE"},
    "linear": "Fp8LinearMethod",
}
CASES = [
    Case(
        ("0.25.0", "0.25.1", "0.26.0"),
        released={"the target's object": True, **CLASSES},
        patched={"the target's object": False, **CLASSES},
    ),
    Case(
        ("0.28.0", "0.33.0"),
        released={"the target's object": False, **CLASSES},
        patched={"the target's object": False, **CLASSES},
        unchanged=True,
    ),
]


def observe() -> Any:
    """Whether the draft has the target's object, and the classes of its config, its experts and its linear layers."""
    from tests.proofs import drafts

    made = {}
    for kind in ("native", "nvfp4"):
        folder = drafts.checkpoint(kind)
        config = drafts.vllm_config(folder, "dspark", draft=folder)
        made[kind] = drafts.draft_config(config)
    return {
        "the target's object": made["nvfp4"].quant_config is config.quant_config,
        "config": type(made["nvfp4"].quant_config).__name__,
        "experts": {kind: drafts.experts(draft)(drafts.LAYERS) for kind, draft in made.items()},
        "linear": drafts.linear(made["nvfp4"]),
    }
