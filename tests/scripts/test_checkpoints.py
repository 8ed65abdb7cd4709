"""The tiny checkpoints against a model of vLLM 0.26.0's loaders: every parameter is filled, and nothing is left over.

The model is written from the loaders' own rules (their name maps, their stacked parameters) and from the shapes that
the layers register, apart from the maker's code.
"""

import re

import pytest

from scripts.checkpoints import deepseek
from scripts.checkpoints.deepseek import Tensor
from scripts.checkpoints.kinds import KINDS, Experts
from scripts.checkpoints.sizes import REAL, SMALL, Sizes

# Of a stacked parameter, the checkpoint's name and where its rows begin.
STACKED = {
    "shared_experts.gate_up_proj": ("shared_experts.w1", "shared_experts.w3"),
    "attn.fused_wqa_wkv": ("attn.wq_a", "attn.wkv"),
    "compressor.fused_wkv_wgate": ("compressor.wkv", "compressor.wgate"),
}
Shape = tuple[int, ...]


def parameters(name: str, s: Sizes, ratio: int, experts: Experts, hashed: bool) -> dict[str, Shape]:
    """What a decoder layer `name` registers; routed experts by expert, as the expert map names them."""
    found: dict[str, Shape] = {}

    def fp8(part: str, rows: int, columns: int) -> None:
        found[f"{part}.weight"] = (rows, columns)
        found[f"{part}.weight_scale_inv"] = ((rows + 127) // 128, (columns + 127) // 128)

    def compressor(part: str, head_dim: int) -> None:
        width = head_dim * (1 + (ratio == 4))
        found[f"{part}.ape"] = (ratio, width)
        found[f"{part}.fused_wkv_wgate.weight"] = (2 * width, s.hidden)
        found[f"{part}.norm.weight"] = (head_dim,)

    # The shards of this stack are quantised in blocks of their own, so their rows must end with a block.
    fp8("attn.fused_wqa_wkv", s.q_lora + s.head_dim, s.hidden)
    fp8("attn.wq_b", s.heads * s.head_dim, s.q_lora)
    fp8("attn.wo_a", s.o_groups * s.o_lora, s.heads * s.head_dim // s.o_groups)
    fp8("attn.wo_b", s.hidden, s.o_groups * s.o_lora)
    found |= {"attn.q_norm.weight": (s.q_lora,), "attn.kv_norm.weight": (s.head_dim,), "attn.attn_sink": (s.heads,)}
    if ratio > 1:
        compressor("attn.compressor", s.head_dim)
    if ratio == 4:
        fp8("attn.indexer.wq_b", s.index_heads * s.index_dim, s.q_lora)
        found["attn.indexer.weights_proj.weight"] = (s.index_heads, s.hidden)
        compressor("attn.indexer.compressor", s.index_dim)
    for part in ("attn", "ffn"):
        found[f"{part}_norm.weight"] = (s.hidden,)
        found[f"hc_{part}_fn"] = (24, 4 * s.hidden)
        found[f"hc_{part}_base"] = (24,)
        found[f"hc_{part}_scale"] = (3,)
    found["ffn.gate.weight"] = (s.experts, s.hidden)
    if hashed:
        found["ffn.gate.tid2eid"] = (s.vocabulary, s.top_k)
    else:
        found["ffn.gate.e_score_correction_bias"] = (s.experts,)
    fp8("ffn.shared_experts.gate_up_proj", 2 * s.intermediate, s.hidden)
    fp8("ffn.shared_experts.down_proj", s.hidden, s.intermediate)
    for expert in range(s.experts):
        for matrix, rows, columns in (
            ("w1", s.intermediate, s.hidden),
            ("w2", s.hidden, s.intermediate),
            ("w3", s.intermediate, s.hidden),
        ):
            part = f"ffn.experts.{expert}.{matrix}"
            block = {"mxfp4": 32, "nvfp4": 16}[experts]
            found |= {f"{part}.weight": (rows, columns // 2), f"{part}.weight_scale": (rows, columns // block)}
            if experts == "nvfp4":
                found |= {f"{part}.weight_scale_2": (), f"{part}.input_scale": ()}
    return {f"{name}.{part}": shape for part, shape in found.items()}


def registered(kind: str, s: Sizes) -> dict[str, Shape]:
    """All parameters of trunk (`model.`) and draft (`draft.`); embeddings and output are the trunk's alone."""
    chosen = KINDS[kind]
    found: dict[str, Shape] = {
        "model.embed_tokens.weight": (s.vocabulary, s.hidden),
        "lm_head.weight": (s.vocabulary, s.hidden),
        "draft.main_proj.weight": (s.hidden, 3 * s.hidden),
        "draft.main_proj.weight_scale_inv": ((s.hidden + 127) // 128, (3 * s.hidden + 127) // 128),
        "draft.main_norm.weight": (s.hidden,),
        "draft.markov_head.markov_w1.weight": (s.vocabulary, s.markov),
        "draft.markov_head.markov_w2.weight": (s.vocabulary, s.markov),
    }
    for model in ("model", "draft"):
        found[f"{model}.norm.weight"] = (s.hidden,)
        found[f"{model}.hc_head_fn"] = (4, 4 * s.hidden)
        found[f"{model}.hc_head_base"] = (4,)
        found[f"{model}.hc_head_scale"] = (1,)
    for i, ratio in enumerate(s.ratios):
        found |= parameters(f"model.layers.{i}", s, max(1, ratio), chosen.trunk, i < s.hash_layers)
    for i in range(3):
        found |= parameters(f"draft.layers.{i}", s, 1, chosen.draft, hashed=False)
    return found


def renamed(name: str) -> str:
    """The parameter that a checkpoint's name goes to, by the trunk's name map or the draft's."""
    if stage := re.match(r"mtp\.(\d+)\.(.*)", name):
        rest = stage[2]
        top = ("main_proj.", "main_norm.", "norm.", "hc_head_", "markov_head.")
        name = f"draft.{rest}" if rest.startswith(top) else f"draft.layers.{stage[1]}.{rest}"
    else:
        name = re.sub(r"^(layers|norm|hc_head)", r"model.\1", name)
        name = {"embed.weight": "model.embed_tokens.weight", "head.weight": "lm_head.weight"}.get(name, name)
    name = re.sub(r"(\.experts\.\d+\.w[123])\.scale$", r"\1.weight_scale", name)
    name = re.sub(r"\.scale$", ".weight_scale_inv", name)
    name = name.replace(".shared_experts.w2", ".shared_experts.down_proj")
    return name.replace(".ffn.gate.bias", ".ffn.gate.e_score_correction_bias")


def loaded(tensors: list[Tensor]) -> dict[str, Shape]:
    """What the loaders have filled after a checkpoint of these tensors; a stack has the rows of all its parts."""
    found: dict[str, Shape] = {}
    for tensor in tensors:
        for name, (shape, _) in tensor.stored().items():
            target = renamed(name)
            for parameter, parts in STACKED.items():
                part = next((part for part in parts if f"{part}." in target and ".experts." not in target), None)
                if part is not None:
                    target = target.replace(part, parameter)
                    before = found.get(target, (0, *shape[1:]))
                    assert before[1:] == shape[1:]
                    shape = (before[0] + shape[0], *shape[1:])
            found[target] = shape
    return found


@pytest.mark.parametrize("sizes", [REAL, SMALL], ids=["real", "small"])
@pytest.mark.parametrize("kind", ["native", "hybrid", "nvfp4"])
def test_the_loaders_fill_every_parameter_and_get_nothing_else(kind: str, sizes: Sizes) -> None:
    found = loaded(deepseek.tensors(KINDS[kind], sizes))
    wanted = registered(kind, sizes)
    if sizes is SMALL:
        # Two parts of one stack share a scale block there, which only a loader of whole blocks would mind.
        found = {name: shape for name, shape in found.items() if "weight_scale_inv" not in name}
        wanted = {name: shape for name, shape in wanted.items() if "weight_scale_inv" not in name}
    assert found == wanted


def test_the_incomplete_checkpoint_lacks_the_shared_experts_of_one_stage_alone() -> None:
    whole = {tensor.name for tensor in deepseek.tensors(KINDS["native"], REAL)}
    lacking = whole - {tensor.name for tensor in deepseek.tensors(KINDS["missing"], REAL)}
    assert lacking == {f"mtp.1.ffn.shared_experts.w{i}" for i in (1, 2, 3)}


def test_kinds_share_every_shard_in_which_they_do_not_differ() -> None:
    by_shard: dict[str, set[tuple[Tensor, ...]]] = {}
    for kind in KINDS.values():
        tensors = deepseek.tensors(kind, REAL)
        for shard in {tensor.shard for tensor in tensors}:
            content = tuple(tensor for tensor in tensors if tensor.shard == shard)
            by_shard.setdefault(shard, set()).add(content)
    assert {shard: len(contents) for shard, contents in by_shard.items()} == dict.fromkeys(by_shard, 1)


def test_only_a_checkpoint_with_an_nvfp4_trunk_says_so() -> None:
    said = {
        name: deepseek.config(kind, REAL)["quantization_config"].get("moe_quant_algo") for name, kind in KINDS.items()
    }
    assert said == {"native": None, "missing": None, "hybrid": "NVFP4", "nvfp4": "NVFP4"}


def test_the_kernels_get_the_released_model_s_own_dimensions() -> None:
    config = deepseek.config(KINDS["native"], REAL)
    assert (config["hidden_size"], config["num_attention_heads"], config["head_dim"]) == (4096, 64, 512)
    assert (config["q_lora_rank"], config["o_lora_rank"], config["index_topk"]) == (1024, 1024, 512)
