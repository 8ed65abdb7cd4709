"""Write the demo's model: a two-layer Llama that walks closed lists of words, whatever the prompt.

Run by the virtual environment that holds vLLM: `VENV/bin/python scripts/demo/model.py DIR`. Owns DIR: a folder
with this script's marker is kept when it is current and replaced when it is not; any other folder is refused.

The next word depends only on the last one. The output row of a word is the embedding of the word before it, and
the layers add far too little to change which row wins. So greedy text is known in advance and repeats with the
period of its list (5 to 9 words): n-gram speculation that drafts the right words is accepted nearly always, and
one that drafts them one place late is accepted never, while the text stays the same.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

MARKER = "hallmark-demo-model.json"

CYCLES: tuple[tuple[str, ...], ...] = (
    ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    ("Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"),
    ("red", "orange", "yellow", "green", "blue", "indigo", "violet"),
    ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    ("thumb", "index", "middle", "ring", "little"),
    ("sight", "hearing", "touch", "taste", "smell"),
    ("do", "re", "mi", "fa", "sol", "la"),
)
PROMPT = "Monday Tuesday Wednesday"
"""Prompt of the demo's gates; the chat template's last token starts the same list at Monday."""

_SPECIAL = ("<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>")
_SPACE = "▁"
_CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

_HIDDEN, _INTERMEDIATE, _LAYERS, _HEADS, _HEAD_DIM = 64, 128, 2, 2, 32
_NOISE = 0.02


def continuation(word: str, count: int) -> str:
    """The greedy text of `count` tokens after `word`, as the server returns it (each word led by a space)."""
    following = successors()
    words = []
    for _ in range(count):
        word = following[word]
        words.append(word)
    return "".join(f" {word}" for word in words)


def successors() -> dict[str, str]:
    """The word that follows each word of the lists."""
    return {word: cycle[(i + 1) % len(cycle)] for cycle in CYCLES for i, word in enumerate(cycle)}


def vocabulary() -> list[str]:
    """All tokens in id order: the special ones, then the words with the mark of a leading space."""
    return [*_SPECIAL, *(_SPACE + word for cycle in CYCLES for word in cycle)]


def config() -> dict[str, Any]:
    """The model's config.json; two heads, so that two ranks can share it."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": _HIDDEN,
        "intermediate_size": _INTERMEDIATE,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS,
        "head_dim": _HEAD_DIM,
        "vocab_size": len(vocabulary()),
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": _SPECIAL.index("<s>"),
        "eos_token_id": _SPECIAL.index("</s>"),
        "torch_dtype": "float32",
    }


def weights() -> dict[str, Any]:
    """All tensors, float32, the same on every machine that has the same numpy generator."""
    import numpy as np  # type: ignore[import-not-found,unused-ignore]

    rng = np.random.default_rng(20261201)
    tokens = vocabulary()
    words = {token.removeprefix(_SPACE): i for i, token in enumerate(tokens)}

    embedding = rng.standard_normal((len(tokens), _HIDDEN)).astype(np.float32)
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    # After a special token (an unknown word, the start of an answer) the first list begins.
    embedding[: len(_SPECIAL)] = embedding[words[CYCLES[0][-1]]]

    head = np.zeros_like(embedding)
    for word, following in successors().items():
        head[words[following]] = embedding[words[word]]

    def noise(*shape: int) -> Any:
        return (rng.standard_normal(shape) * _NOISE).astype(np.float32)

    width = _HEADS * _HEAD_DIM
    tensors = {
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": np.ones(_HIDDEN, np.float32),
        "lm_head.weight": head,
    }
    for i in range(_LAYERS):
        layer = f"model.layers.{i}"
        tensors |= {
            f"{layer}.input_layernorm.weight": np.ones(_HIDDEN, np.float32),
            f"{layer}.post_attention_layernorm.weight": np.ones(_HIDDEN, np.float32),
            f"{layer}.self_attn.q_proj.weight": noise(width, _HIDDEN),
            f"{layer}.self_attn.k_proj.weight": noise(width, _HIDDEN),
            f"{layer}.self_attn.v_proj.weight": noise(width, _HIDDEN),
            f"{layer}.self_attn.o_proj.weight": noise(_HIDDEN, width),
            f"{layer}.mlp.gate_proj.weight": noise(_INTERMEDIATE, _HIDDEN),
            f"{layer}.mlp.up_proj.weight": noise(_INTERMEDIATE, _HIDDEN),
            f"{layer}.mlp.down_proj.weight": noise(_HIDDEN, _INTERMEDIATE),
        }
    return tensors


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import (  # type: ignore[import-not-found,unused-ignore]
        AddedToken,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
    )

    tokenizer = Tokenizer(models.WordLevel({t: i for i, t in enumerate(vocabulary())}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(replacement=_SPACE, prepend_scheme="never")
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": config()["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
        "chat_template": _CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _source() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def is_current(folder: Path) -> bool:
    """Whether `folder` was written by exactly this script and every file still has its recorded sha256."""
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return marker["source"] == _source() and all(
            hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
            for name, digest in marker["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def write(folder: Path) -> bool:
    """Make `folder` the current model; False when it already was. The folder appears whole or not at all.

    Raises FileExistsError when something that this script did not write is in the way.
    """
    if is_current(folder):
        return False
    if folder.exists() and not (folder / MARKER).is_file():
        raise FileExistsError(f"{folder} exists and was not written by {Path(__file__).name}")

    from safetensors.numpy import save_file  # type: ignore[import-not-found,unused-ignore]

    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        new = staging / "new"
        new.mkdir()
        save_file(weights(), str(new / "model.safetensors"), metadata={"format": "pt"})
        (new / "model.safetensors").chmod(0o644)
        (new / "config.json").write_text(json.dumps(config(), indent=2) + "\n", encoding="utf-8")
        _write_tokenizer(new)
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(new.iterdir())}
        marker = {"source": _source(), "files": files}
        (new / MARKER).write_text(json.dumps(marker, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        if folder.exists():
            folder.rename(staging / "old")
        new.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return True


def main() -> int:
    """Write the model into the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.absolute()
    try:
        written = write(folder)
    except OSError as error:
        print(f"model.py: {error} — name another folder", file=sys.stderr)
        return 1
    print(f"model {'written to' if written else 'is current in'} {folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
