"""Names, shapes and encodings of a DeepSeek-V4 checkpoint with a DSpark draft, and its config.json.

Knows no values and needs no torch. The names are those of the released checkpoints, which the loaders map to
parameters: `layers.N.*` is the trunk, `mtp.N.*` the draft's stages; the first stage also holds the projection of the
trunk's hidden states, the last one the draft's heads.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from scripts.checkpoints.kinds import Kind
from scripts.checkpoints.sizes import Sizes

Encoding = Literal["bf16", "f32", "i64", "fp8", "mxfp4", "nvfp4"]
FP8_BLOCK = 128
MXFP4_BLOCK = 32
NVFP4_BLOCK = 16


@dataclass(frozen=True)
class Tensor:
    """One logical tensor: `name` has no `.weight` when it is a matrix that is stored with scales."""

    name: str
    shape: tuple[int, ...]
    encoding: Encoding
    shard: str

    def stored(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """What is written to the file: name -> (shape, safetensors' name of the element type)."""
        if self.encoding in ("bf16", "f32", "i64"):
            return {self.name: (self.shape, {"bf16": "BF16", "f32": "F32", "i64": "I64"}[self.encoding])}
        rows, columns = self.shape
        if self.encoding == "fp8":
            blocks = (-(-rows // FP8_BLOCK), -(-columns // FP8_BLOCK))
            return {f"{self.name}.weight": (self.shape, "F8_E4M3"), f"{self.name}.scale": (blocks, "F8_E8M0")}
        packed = (rows, columns // 2)
        if self.encoding == "mxfp4":
            return {
                f"{self.name}.weight": (packed, "I8"),
                f"{self.name}.scale": ((rows, columns // MXFP4_BLOCK), "F8_E8M0"),
            }
        return {
            f"{self.name}.weight": (packed, "U8"),
            f"{self.name}.weight_scale": ((rows, columns // NVFP4_BLOCK), "F8_E4M3"),
            f"{self.name}.weight_scale_2": ((), "F32"),
            f"{self.name}.input_scale": ((), "F32"),
        }


def tensors(kind: Kind, sizes: Sizes) -> list[Tensor]:
    """Every logical tensor of a checkpoint of this kind, each in the shard that it is written to.

    Shards are cut so that all kinds share every file in which they do not differ.
    """
    return [*_trunk(kind, sizes), *_draft(kind, sizes)]


def _trunk(kind: Kind, sizes: Sizes) -> Iterator[Tensor]:
    shard = "trunk"
    yield Tensor("embed.weight", (sizes.vocabulary, sizes.hidden), "bf16", shard)
    yield Tensor("head.weight", (sizes.vocabulary, sizes.hidden), "bf16", shard)
    yield from _head("", sizes, shard)
    for layer in range(sizes.layers):
        yield from _layer(f"layers.{layer}", sizes, shard, layer)
        yield from _shared(f"layers.{layer}", sizes, shard)
        yield from _experts(f"layers.{layer}", sizes, kind.trunk, f"trunk-experts-{kind.trunk}")


def _draft(kind: Kind, sizes: Sizes) -> Iterator[Tensor]:
    shard = "draft"
    yield Tensor("mtp.0.main_proj", (sizes.hidden, len(sizes.targets) * sizes.hidden), "fp8", shard)
    yield Tensor("mtp.0.main_norm.weight", (sizes.hidden,), "bf16", shard)
    for stage in range(sizes.stages):
        yield from _layer(f"mtp.{stage}", sizes, shard, None)
        if stage not in kind.without_shared:
            yield from _shared(f"mtp.{stage}", sizes, f"draft-shared-{stage}")
        yield from _experts(f"mtp.{stage}", sizes, kind.draft, f"draft-experts-{kind.draft}")
    last = f"mtp.{sizes.stages - 1}."
    yield from _head(last, sizes, shard)
    for name in ("markov_w1", "markov_w2"):
        yield Tensor(f"{last}markov_head.{name}.weight", (sizes.vocabulary, sizes.markov), "bf16", shard)


def _head(prefix: str, sizes: Sizes, shard: str) -> Iterator[Tensor]:
    yield Tensor(f"{prefix}norm.weight", (sizes.hidden,), "bf16", shard)
    yield Tensor(f"{prefix}hc_head_fn", (sizes.streams, sizes.streams * sizes.hidden), "f32", shard)
    yield Tensor(f"{prefix}hc_head_base", (sizes.streams,), "f32", shard)
    yield Tensor(f"{prefix}hc_head_scale", (1,), "f32", shard)


def _layer(name: str, sizes: Sizes, shard: str, layer: int | None) -> Iterator[Tensor]:
    """A decoder layer without its experts; `layer` is its place in the trunk, None for a stage of the draft."""
    yield from _attention(f"{name}.attn", sizes, shard, 0 if layer is None else sizes.ratios[layer])
    yield Tensor(f"{name}.attn_norm.weight", (sizes.hidden,), "bf16", shard)
    yield Tensor(f"{name}.ffn_norm.weight", (sizes.hidden,), "bf16", shard)
    mixes = (2 + sizes.streams) * sizes.streams
    for part in ("attn", "ffn"):
        yield Tensor(f"{name}.hc_{part}_fn", (mixes, sizes.streams * sizes.hidden), "f32", shard)
        yield Tensor(f"{name}.hc_{part}_base", (mixes,), "f32", shard)
        yield Tensor(f"{name}.hc_{part}_scale", (3,), "f32", shard)
    yield Tensor(f"{name}.ffn.gate.weight", (sizes.experts, sizes.hidden), "bf16", shard)
    if layer is not None and layer < sizes.hash_layers:
        yield Tensor(f"{name}.ffn.gate.tid2eid", (sizes.vocabulary, sizes.top_k), "i64", shard)
    else:
        yield Tensor(f"{name}.ffn.gate.bias", (sizes.experts,), "f32", shard)


def _attention(name: str, sizes: Sizes, shard: str, ratio: int) -> Iterator[Tensor]:
    width = sizes.heads * sizes.head_dim
    yield Tensor(f"{name}.wq_a", (sizes.q_lora, sizes.hidden), "fp8", shard)
    yield Tensor(f"{name}.wkv", (sizes.head_dim, sizes.hidden), "fp8", shard)
    yield Tensor(f"{name}.wq_b", (width, sizes.q_lora), "fp8", shard)
    yield Tensor(f"{name}.wo_a", (sizes.o_groups * sizes.o_lora, width // sizes.o_groups), "fp8", shard)
    yield Tensor(f"{name}.wo_b", (sizes.hidden, sizes.o_groups * sizes.o_lora), "fp8", shard)
    yield Tensor(f"{name}.q_norm.weight", (sizes.q_lora,), "bf16", shard)
    yield Tensor(f"{name}.kv_norm.weight", (sizes.head_dim,), "bf16", shard)
    yield Tensor(f"{name}.attn_sink", (sizes.heads,), "f32", shard)
    if ratio > 1:
        yield from _compressor(f"{name}.compressor", sizes.hidden, sizes.head_dim, ratio, shard)
    if ratio == 4:
        yield Tensor(f"{name}.indexer.wq_b", (sizes.index_heads * sizes.index_dim, sizes.q_lora), "fp8", shard)
        yield Tensor(f"{name}.indexer.weights_proj.weight", (sizes.index_heads, sizes.hidden), "bf16", shard)
        yield from _compressor(f"{name}.indexer.compressor", sizes.hidden, sizes.index_dim, ratio, shard)


def _compressor(name: str, hidden: int, head_dim: int, ratio: int, shard: str) -> Iterator[Tensor]:
    # A ratio of 4 compresses overlapping windows and so has two of everything.
    width = head_dim * (2 if ratio == 4 else 1)
    yield Tensor(f"{name}.ape", (ratio, width), "f32", shard)
    yield Tensor(f"{name}.wkv.weight", (width, hidden), "bf16", shard)
    yield Tensor(f"{name}.wgate.weight", (width, hidden), "bf16", shard)
    yield Tensor(f"{name}.norm.weight", (head_dim,), "bf16", shard)


def _shared(name: str, sizes: Sizes, shard: str) -> Iterator[Tensor]:
    for matrix, shape in _expert_shapes(sizes).items():
        yield Tensor(f"{name}.ffn.shared_experts.{matrix}", shape, "fp8", shard)


def _experts(name: str, sizes: Sizes, encoding: Encoding, shard: str) -> Iterator[Tensor]:
    for expert in range(sizes.experts):
        for matrix, shape in _expert_shapes(sizes).items():
            yield Tensor(f"{name}.ffn.experts.{expert}.{matrix}", shape, encoding, shard)


def _expert_shapes(sizes: Sizes) -> dict[str, tuple[int, int]]:
    up, down = (sizes.intermediate, sizes.hidden), (sizes.hidden, sizes.intermediate)
    return {"w1": up, "w2": down, "w3": up}


def config(kind: Kind, sizes: Sizes) -> dict[str, Any]:
    """The checkpoint's config.json, with the keys of the released ones."""
    quantization: dict[str, Any] = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "scale_fmt": "ue8m0",
        "weight_block_size": [FP8_BLOCK, FP8_BLOCK],
        "activation_scheme": "dynamic",
    }
    if kind.trunk == "nvfp4":
        quantization["moe_quant_algo"] = "NVFP4"
    return {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "hidden_size": sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": 1,
        "head_dim": sizes.head_dim,
        "qk_rope_head_dim": sizes.rope,
        "q_lora_rank": sizes.q_lora,
        "o_lora_rank": sizes.o_lora,
        "o_groups": sizes.o_groups,
        "index_n_heads": sizes.index_heads,
        "index_head_dim": sizes.index_dim,
        "index_topk": sizes.index_topk,
        "sliding_window": 128,
        "compress_ratios": [*sizes.ratios, *(0 for _ in range(sizes.stages))],
        "n_routed_experts": sizes.experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": sizes.top_k,
        "moe_intermediate_size": sizes.intermediate,
        "num_hash_layers": sizes.hash_layers,
        "scoring_func": "sqrtsoftplus",
        "topk_method": "noaux_tc",
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.5,
        "swiglu_limit": 10.0,
        "hc_mult": sizes.streams,
        "hc_sinkhorn_iters": 20,
        "hc_eps": 1e-6,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "vocab_size": sizes.vocabulary,
        "max_position_embeddings": 65536,
        "rope_theta": 10000,
        "compress_rope_theta": 160000,
        "rope_scaling": {
            "type": "yarn",
            "factor": 16,
            "original_max_position_embeddings": 4096,
            "beta_fast": 32,
            "beta_slow": 1,
        },
        "bos_token_id": 0,
        "eos_token_id": 1,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "torch_dtype": "bfloat16",
        "expert_dtype": "fp4",
        "quantization_config": quantization,
        # The released config says 1 although DSpark has three stages; another number is refused.
        "num_nextn_predict_layers": 1,
        "dspark_block_size": sizes.block,
        "dspark_markov_rank": sizes.markov,
        "dspark_target_layer_ids": list(sizes.targets),
        "dspark_noise_token_id": sizes.noise_token,
    }
