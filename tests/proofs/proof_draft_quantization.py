"""A draft named by --spec-model, as native FP8 + MXFP4 checkpoints are served, is built for the experts that it has."""

from typing import Any

from tests.proofs.case import Case

PATCH = "dspark-draft-quantization"
RIGHT = {"quantization": "deepseek_v4_fp8", "config": "DeepseekV4FP8Config", "experts": "Mxfp4MoEMethod"}
CASES = [
    # Block-FP8 experts have no w13_weight_scale, which the checkpoint offers: the KeyError of vllm-project/vllm#51835.
    Case(
        ("0.27.0", "0.27.1"),
        released={"quantization": "fp8", "config": "Fp8Config", "experts": "Fp8MoEMethod"},
        patched=RIGHT,
    ),
    # Latent: the draft is built from the target's object, which has the right class.
    Case(("0.25.0", "0.25.1", "0.26.0"), released={**RIGHT, "quantization": "fp8"}, patched=RIGHT),
    Case(("0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"), released=RIGHT, patched=RIGHT, unchanged=True),
]


def observe() -> Any:
    """The draft's quantisation string, the class of its quantisation config, and its experts' method."""
    from tests.proofs import drafts

    folder = drafts.checkpoint("native")
    draft = drafts.draft_config(drafts.vllm_config(folder, "dspark", draft=folder))
    return {
        "quantization": draft.speculative_config.draft_model_config.quantization,
        "config": type(draft.quant_config).__name__,
        "experts": drafts.experts(draft)(drafts.LAYERS),
    }
