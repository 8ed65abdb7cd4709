"""The kinds of DeepSeek-V4 checkpoint that the proofs need, and what each holds."""

from dataclasses import dataclass
from typing import Literal

Experts = Literal["mxfp4", "nvfp4"]


@dataclass(frozen=True)
class Kind:
    """What a checkpoint's routed experts are, and the stages whose shared experts it lacks."""

    trunk: Experts
    draft: Experts
    without_shared: tuple[int, ...] = ()


KINDS = {
    "native": Kind("mxfp4", "mxfp4"),
    "hybrid": Kind("nvfp4", "mxfp4"),
    "nvfp4": Kind("nvfp4", "nvfp4"),
    "missing": Kind("mxfp4", "mxfp4", without_shared=(1,)),
}
QWEN3 = "qwen3"
"""The fifth kind is two folders of their own: a target and its DSpark draft (see qwen3.py)."""
