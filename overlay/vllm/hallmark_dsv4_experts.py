"""Decides, for one DeepSeek-V4 layer, whether its routed experts are NVFP4 or MXFP4.

The config of an NVFP4 checkpoint speaks about the trunk. Its draft stages (`mtp.N`) may hold NVFP4 experts as well or
the native MXFP4 ones, and only the checkpoint's own tensor names tell. Building the wrong kind loads without an
error and drafts noise, so the names are read instead of the config being trusted.
"""

import fnmatch
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from vllm.config import get_current_vllm_config
from vllm.logger import init_logger
from vllm.transformers_utils.config import get_safetensors_params_metadata
from vllm.transformers_utils.repo_utils import get_hf_file_to_dict

logger = init_logger("vllm.hallmark")

INDEX = "model.safetensors.index.json"

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.ffn\.experts(?:\.|$)")
_EXPERT = re.compile(r"^(?:model\.)?mtp\.(\d+)\.ffn\.experts\.")
# The tensors that only one kind has. Experts with neither are not FP4 at all.
_NVFP4_SUFFIXES = (".weight_scale_2", ".input_scale")
_MXFP4_SUFFIX = ".scale"


def experts_are_nvfp4(moe_quant_algo: str, prefix: str) -> bool:
    """Whether to build the routed experts at module path `prefix` as ModelOpt NVFP4.

    `moe_quant_algo` is the checkpoint's own statement about its trunk; without "NVFP4" there nothing changes.
    """
    if moe_quant_algo != "NVFP4":
        return False
    layer = _LAYER.search(prefix)
    if layer is None:
        return True
    vllm_config = get_current_vllm_config()
    stage = int(layer.group(1)) - vllm_config.model_config.hf_text_config.num_hidden_layers
    if stage < 0:
        return True
    nvfp4, reason = _stage_is_nvfp4(_draft_config(vllm_config), stage)
    logger.info_once("DeepSeek V4 draft stage %d: %s experts (%s)", stage, "NVFP4" if nvfp4 else "MXFP4", reason)
    return nvfp4


def _draft_config(vllm_config: Any) -> Any:
    speculative = vllm_config.speculative_config
    draft = speculative.draft_model_config if speculative is not None else None
    return draft if draft is not None else vllm_config.model_config


def _stage_is_nvfp4(model_config: Any, stage: int) -> tuple[bool, str]:
    """The verdict for one draft stage and what it rests on."""
    found = _expert_kinds(model_config.model, model_config.revision).get(stage)
    if found is not None:
        return found, "tensor names in the checkpoint"
    quantization = getattr(model_config.hf_config, "quantization_config", None) or {}
    name = f"mtp.{stage}.ffn.experts"
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in quantization.get("ignore") or ()):
        return False, "listed in the checkpoint's ignore list"
    return True, "the trunk's kind, as the checkpoint says nothing about this stage"


@functools.cache
def _expert_kinds(model: str, revision: str | None) -> Mapping[int, bool]:
    """Draft stage -> "its routed experts are NVFP4", for every stage whose FP4 experts the checkpoint names."""
    kinds: dict[int, bool] = {}
    for name in _tensor_names(model, revision):
        expert = _EXPERT.match(name)
        if expert is None:
            continue
        if name.endswith(_NVFP4_SUFFIXES):
            kinds[int(expert.group(1))] = True
        elif name.endswith(_MXFP4_SUFFIX):
            kinds.setdefault(int(expert.group(1)), False)
    return kinds


def _tensor_names(model: str, revision: str | None) -> Iterable[str]:
    """The names in the index, which decides what vLLM loads; without one, those in the headers of the files."""
    index = get_hf_file_to_dict(INDEX, model, revision)
    if index is not None:
        return index.get("weight_map", ())
    return get_safetensors_params_metadata(model, revision=revision)
