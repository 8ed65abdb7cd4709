"""The experts of a draft stage are built for what the checkpoint holds; the trunk's and native checkpoints' as ever."""

from typing import Any

from tests.proofs.case import Case
from tests.proofs.drafts import DSPARK

PATCH = "dsv4-expert-dispatch"

NVFP4, MXFP4 = "ModelOptNvFp4FusedMoE", "Mxfp4MoEMethod"
# [the trunk's first and last layer, the draft's first and last stage]
ALIKE = {
    "native": [MXFP4, MXFP4, MXFP4, MXFP4],
    "nvfp4": [NVFP4, NVFP4, NVFP4, NVFP4],
}
RELEASED = {
    **ALIKE,
    "hybrid": [NVFP4, NVFP4, NVFP4, NVFP4],
    "hybrid, one file without an index": [NVFP4, NVFP4, NVFP4, NVFP4],
}
PATCHED = {
    **ALIKE,
    "hybrid": [NVFP4, NVFP4, MXFP4, MXFP4],
    "hybrid, one file without an index": [NVFP4, NVFP4, MXFP4, MXFP4],
}
CASES = [
    Case(
        # Without DSpark: the ordinary mtp draft.
        ("0.22.0", "0.22.1", "0.23.0", "0.24.0"),
        released=RELEASED,
        patched=PATCHED,
    ),
    Case(
        DSPARK,
        released=RELEASED,
        patched=PATCHED,
    ),
]


def observe() -> Any:
    """For each kind of checkpoint the quantisation methods of its trunk's and its draft's experts."""
    import importlib.util

    from tests.proofs import drafts

    dspark = importlib.util.find_spec("vllm.v1.worker.gpu.spec_decode.dspark") is not None
    seen = {}
    for name, kind, index in (
        ("native", "native", True),
        ("nvfp4", "nvfp4", True),
        ("hybrid", "hybrid", True),
        ("hybrid, one file without an index", "hybrid", False),
    ):
        folder = drafts.checkpoint(kind, index=index)
        config = drafts.vllm_config(folder, "dspark" if dspark else "mtp")
        draft = drafts.draft_config(config) if dspark else config
        trunk, stages = drafts.experts(config), drafts.experts(draft)
        seen[name] = [
            trunk(0),
            trunk(drafts.LAYERS - 1),
            stages(drafts.LAYERS),
            stages(drafts.LAYERS + drafts.STAGES - 1),
        ]
    return seen
