"""Tiny DeepSeek-V4 checkpoints without weights, and the configs that vLLM makes of them, for proofs about drafts.

Runs inside a proof's interpreter. Only names are read here: the index (or the header of a single file) says what the
checkpoint would hold.
"""

import json
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

# The releases that have DSpark.
DSPARK = (
    *("0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0"),
    *("0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"),
)
LAYERS, STAGES, EXPERTS = 4, 3, 2
TOKENS = 5

_NATIVE = ("weight", "scale")
_NVFP4 = ("weight", "weight_scale", "weight_scale_2", "input_scale")
# kind → the tensors of the trunk's experts and of the draft's.
KINDS = {"native": (_NATIVE, _NATIVE), "hybrid": (_NVFP4, _NATIVE), "nvfp4": (_NVFP4, _NVFP4)}


def checkpoint(kind: str, *, index: bool = True) -> Path:
    """A folder with a config and the tensor names of a checkpoint of this kind."""
    folder = Path(tempfile.mkdtemp())
    (folder / "config.json").write_text(json.dumps(_config(nvfp4=kind != "native")))
    trunk, draft = KINDS[kind]
    names = [*_expert_names("layers", LAYERS, trunk), *_expert_names("mtp", STAGES, draft)]
    if index:
        weights = dict.fromkeys(names, "model-00001-of-00001.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    else:
        header = json.dumps({name: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for name in names}).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return folder


def vllm_config(folder: Path, method: str, *, draft: Path | None = None, **parts: Any) -> Any:
    """The VllmConfig for serving `folder` with a draft; `draft` is what --spec-model names.

    `parts`: `moe_backend` of the trunk, `draft_moe_backend` of the speculative config.
    """
    from vllm.config import DeviceConfig, KernelConfig, ModelConfig, ParallelConfig, SpeculativeConfig, VllmConfig
    from vllm.config import vllm as checks
    from vllm.model_executor.models import registry

    # Models are looked at in a process of their own, which would import vLLM once more for each.
    registry._run_in_subprocess = lambda look: look()
    # The runner that DSpark needs is refused where there is no GPU to compile for.
    checks.HAS_TRITON = True
    target = ModelConfig(model=str(folder), skip_tokenizer_init=True, dtype="bfloat16")
    parallel = ParallelConfig()
    speculative = SpeculativeConfig(
        method=method,
        model=str(draft) if draft else None,
        num_speculative_tokens=TOKENS,
        moe_backend=parts.get("draft_moe_backend"),
        target_model_config=target,
        target_parallel_config=parallel,
    )
    return VllmConfig(
        model_config=target,
        device_config=DeviceConfig(device="cpu"),
        parallel_config=parallel,
        speculative_config=speculative,
        kernel_config=KernelConfig(moe_backend=parts.get("moe_backend", "auto")),
    )


def draft_config(config: Any) -> Any:
    """The VllmConfig with which vLLM's own load_dspark_model would build the draft."""
    from vllm.distributed import parallel_state
    from vllm.v1.worker.gpu.spec_decode.dspark import utils

    class Built(Exception):
        pass

    def get_model(**given: Any) -> Any:
        raise Built(given["vllm_config"])

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(parallel_state, "_PP", mock.Mock(world_size=1)))
        for module in (utils, __import__("vllm.model_executor.model_loader", fromlist=["get_model"])):
            if hasattr(module, "get_model"):
                stack.enter_context(mock.patch.object(module, "get_model", get_model))
        try:
            utils.load_dspark_model(mock.Mock(), config)
        except Built as built:
            return built.args[0]
    raise AssertionError("load_dspark_model built no model")


def experts(config: Any) -> Callable[[int], str]:
    """layer → the class of quantisation method that `config` gives its routed experts; the classes are not made."""
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers import fused_moe
    from vllm.model_executor.layers.quantization import fp8, modelopt, mxfp4
    from vllm.models.deepseek_v4 import quant_config

    kind = getattr(fused_moe, "RoutedExperts", None) or fused_moe.FusedMoE
    layer = kind.__new__(kind)
    object.__setattr__(layer, "moe_config", None)

    def ask(number: int) -> str:
        with ExitStack() as stack:
            for module in (fp8, modelopt, mxfp4, quant_config):
                for name in ("Fp8MoEMethod", "ModelOptNvFp4FusedMoE", "Mxfp4MoEMethod"):
                    if hasattr(module, name):
                        stack.enter_context(mock.patch.object(module, name, lambda *_, name=name, **__: name))
            stack.enter_context(set_current_vllm_config(config))
            return str(config.quant_config.get_quant_method(layer, f"model.layers.{number}.ffn.experts"))

    return ask


def linear(config: Any) -> str:
    """The class of quantisation method that `config` gives a linear layer of the draft's first stage."""
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers.linear import ReplicatedLinear
    from vllm.model_executor.layers.quantization import fp8

    class Fp8LinearMethod:
        def __init__(self, *_: Any, **__: Any) -> None: ...

    layer = ReplicatedLinear.__new__(ReplicatedLinear)
    with mock.patch.object(fp8, "Fp8LinearMethod", Fp8LinearMethod), set_current_vllm_config(config):
        return type(config.quant_config.get_quant_method(layer, f"model.layers.{LAYERS}.attn.wq_a")).__name__


def reason(error: ValueError) -> str:
    """What the code said, without what pydantic writes around it."""
    errors: Any = getattr(error, "errors", None)
    return str(errors()[0]["ctx"]["error"]) if errors else str(error)


def _expert_names(stem: str, count: int, parts: tuple[str, ...]) -> Iterator[str]:
    for layer in range(count):
        for expert in range(EXPERTS):
            yield from (f"{stem}.{layer}.ffn.experts.{expert}.w{w}.{part}" for w in (1, 2, 3) for part in parts)


def _config(*, nvfp4: bool) -> dict[str, Any]:
    quantization: dict[str, Any] = {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "scale_fmt": "ue8m0",
        "weight_block_size": [128, 128],
    }
    if nvfp4:
        quantization |= {"quant_algo": "MIXED_PRECISION", "moe_quant_algo": "NVFP4", "group_size": 16}
    return {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "torch_dtype": "bfloat16",
        "vocab_size": 512,
        "hidden_size": 256,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "head_dim": 512,
        "qk_rope_head_dim": 64,
        "q_lora_rank": 128,
        "o_lora_rank": 128,
        "o_groups": 2,
        "index_topk": 64,
        "index_n_heads": 8,
        "index_head_dim": 128,
        "sliding_window": 128,
        "compress_ratios": [4, 128, 4, 0, 0, 0, 0],
        "n_routed_experts": EXPERTS,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "moe_intermediate_size": 256,
        "swiglu_limit": 10.0,
        "hc_mult": 4,
        "hc_eps": 1e-6,
        "hc_sinkhorn_iters": 2,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000,
        "max_position_embeddings": 4096,
        "num_nextn_predict_layers": 1,
        "n_mtp_layers": STAGES,
        "dspark_block_size": TOKENS,
        "dspark_target_layer_ids": [1, 2, 3],
        "dspark_markov_rank": 16,
        "quantization_config": quantization,
    }
