"""A tiny Qwen3 and a DSpark draft for it, in two folders: the dense model on which DSpark itself can be checked.

Built on the same idea as the DeepSeek checkpoint (see fill.py) without its experts: the output row of a token carries
the code of the token before it in one cycle, the target's attention adds noise, the draft's layers are quiet.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.checkpoints import write
from scripts.checkpoints.fill import generator

_HIDDEN, _INTERMEDIATE, _HEADS, _KV_HEADS, _HEAD_DIM = 512, 1024, 8, 4, 128
_LAYERS, _DRAFT_LAYERS, _TARGETS = 4, 2, (1, 2, 3)
_VOCABULARY, _MARKOV, _BLOCK, _SWITCH = 2048, 256, 5, 32
_NOISE = (0.2, 0.5, 1.0, 9.0)
"""What the attention of each layer of the target adds, per element of a hidden state whose code measures 1."""
_DRAFT_NOISE = 0.02

TARGET, DRAFT = "qwen3", "qwen3-draft"


def write_pair(folder: Path, seed: int, device: str) -> None:
    """Write the target and the draft below `folder`."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    def normal(name: str, shape: tuple[int, ...], deviation: float) -> Any:
        made = generator(seed, name, device)
        return torch.randn(shape, generator=made, device=device) * deviation

    code = normal("code", (_VOCABULARY, _HIDDEN), 1.0)
    code[:, :_SWITCH] = 0
    embedding = code.clone()
    # The masked places of the draft's block have no code and lie outside what the output rows read.
    embedding[_VOCABULARY - 1] = 0
    embedding[_VOCABULARY - 1, :_SWITCH] = 3
    order = torch.randperm(_VOCABULARY - 3, generator=torch.Generator(device).manual_seed(seed), device=device) + 2
    output = torch.zeros_like(code)
    output[order.roll(-1)] = code[order] / math.sqrt(_HIDDEN - _SWITCH)
    markov = normal("markov", (_VOCABULARY, _MARKOV), 1.0)
    markov /= markov.norm(dim=-1, keepdim=True)
    following = torch.zeros_like(markov)
    following[order.roll(-1)] = markov[order] * 1.8

    target = {
        "model.embed_tokens.weight": embedding,
        "lm_head.weight": output,
        "model.norm.weight": torch.ones(_HIDDEN, device=device),
    }
    for layer in range(_LAYERS):
        target |= _layer(f"model.layers.{layer}", normal, device, _NOISE[layer])
    draft = {
        "fc.weight": normal("fc", (_HIDDEN, len(_TARGETS) * _HIDDEN), 1 / math.sqrt(len(_TARGETS) * _HIDDEN)),
        "hidden_norm.weight": torch.ones(_HIDDEN, device=device),
        "norm.weight": torch.ones(_HIDDEN, device=device),
        "markov_head.markov_w1.weight": markov,
        "markov_head.markov_w2.weight": following,
    }
    for layer in range(_DRAFT_LAYERS):
        tensors = _layer(f"draft.layers.{layer}", normal, device, _DRAFT_NOISE)
        draft |= {name.removeprefix("draft."): value for name, value in tensors.items()}

    for name, settings, tensors in ((TARGET, _config(), target), (DRAFT, _draft_config(), draft)):
        path = write.shards_folder(folder, seed, device) / f"{name}.safetensors"
        if not path.exists():
            write.save(path, {key: value.to(torch.bfloat16) for key, value in tensors.items()})
        write.checkpoint(folder / name, settings, {path: list(tensors)})


def _layer(name: str, normal: Callable[..., Any], device: str, noise: float) -> dict[str, Any]:
    import torch

    width, kv = _HEADS * _HEAD_DIM, _KV_HEADS * _HEAD_DIM
    shapes = {
        "self_attn.q_proj": (width, _HIDDEN),
        "self_attn.k_proj": (kv, _HIDDEN),
        "self_attn.v_proj": (kv, _HIDDEN),
        "self_attn.o_proj": (_HIDDEN, width),
        "mlp.gate_proj": (_INTERMEDIATE, _HIDDEN),
        "mlp.up_proj": (_INTERMEDIATE, _HIDDEN),
        "mlp.down_proj": (_HIDDEN, _INTERMEDIATE),
    }
    tensors = {}
    for part, shape in shapes.items():
        scale = {"self_attn.o_proj": noise / 0.6, "mlp.down_proj": 0.1}.get(part, 1.0)
        tensors[f"{name}.{part}.weight"] = normal(f"{name}.{part}", shape, scale / math.sqrt(shape[1]))
    for part, size in (("input_layernorm", _HIDDEN), ("post_attention_layernorm", _HIDDEN)):
        tensors[f"{name}.{part}.weight"] = torch.ones(size, device=device)
    # Larger queries make heads attend to few tokens.
    tensors[f"{name}.self_attn.q_norm.weight"] = torch.full((_HEAD_DIM,), 2.0, device=device)
    tensors[f"{name}.self_attn.k_norm.weight"] = torch.ones(_HEAD_DIM, device=device)
    return tensors


def _config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": _HIDDEN,
        "intermediate_size": _INTERMEDIATE,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "head_dim": _HEAD_DIM,
        "vocab_size": _VOCABULARY,
        "max_position_embeddings": 8192,
        "rope_theta": 1000000.0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "bfloat16",
    }


def _draft_config() -> dict[str, Any]:
    return _config() | {
        "architectures": ["Qwen3DSparkModel"],
        "num_hidden_layers": _DRAFT_LAYERS,
        "block_size": _BLOCK,
        "dspark_block_size": _BLOCK,
        "markov_rank": _MARKOV,
        "mask_token_id": _VOCABULARY - 1,
        "target_layer_ids": list(_TARGETS),
        "dflash_config": {"mask_token_id": _VOCABULARY - 1, "target_layer_ids": list(_TARGETS)},
    }
