"""What a rank would hold, as vLLM's own code says: against real vLLM on the CPU, and for DeepSeek-V4 without a GPU."""

import base64
import json
import os
import platform
import re
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import pytest

from recipe.config.flags import flags
from recipe.config.load import load_profile
from recipe.config.paths import CHECKOUT
from recipe.image import pyz
from scripts.checkpoints import deepseek
from scripts.checkpoints.kinds import KINDS
from scripts.checkpoints.sizes import REAL, Sizes
from scripts.demo import install
from tests.proofs import trees

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.wheel,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="vLLM's CPU build is for Linux on x86-64"
    ),
]

_HERE = Path(__file__).parent
_GIB = 2**30
# DeepSeek-V4-Flash's layers, experts and vocabulary; the ratios of its layers alternate.
FULL = replace(
    REAL,
    ratios=(0, 0, *(4 if layer % 2 else 128 for layer in range(1, 42))),
    experts=256,
    vocabulary=129280,
    targets=(40, 41, 42),
)
_WIDTHS = {"BF16": 2, "F32": 4, "I64": 8, "F8_E4M3": 1, "F8_E8M0": 1, "I8": 1, "U8": 1}
DSPARK = '{"method":"dspark","num_speculative_tokens":5}'
CI = ("0.33.0",)


def environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_PLUGINS": "", "TORCHDYNAMO_DISABLE": "1"}
    return {**kept, **quiet, **more}


def run(words: list[str], **more: str) -> "subprocess.CompletedProcess[str]":
    python = str(install.environment() / "bin" / "python")
    done = subprocess.run([python, *words], env=environment(**more), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
    return done


def encoded(argv: list[str], **parts: Any) -> str:
    asked = {"argv": argv, "device": "cpu", "capability": None, "gpus": 1, "memory": None, "available": None}
    return base64.b64encode(json.dumps({**asked, "beside": None, **parts}).encode()).decode()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sizes") / pyz.SIZES
    path.write_bytes(pyz.pack_sizes())
    return path


@dataclass(frozen=True)
class Engine:
    """What real vLLM held and logged: bytes of weights and of cache by rank, bytes for the cache, tokens of it."""

    weights: list[int]
    cache: list[int]
    available: list[float]
    tokens: int


@dataclass(frozen=True)
class Loaded:
    """One model on so many ranks, as it is told without weights and as real vLLM loaded it on this CPU."""

    told: dict[str, Any]
    real: Engine


# By name: model, ranks, more arguments. `odd` has one head of keys for two ranks, a vocabulary that is padded and
# cannot be halved, and one table for words in and out; its values are vLLM's own dummies.
_LOADED: dict[str, tuple[str, int, dict[str, Any]]] = {
    "tiny-2": ("tiny-cycle", 2, {"dtype": "float32"}),
    "qwen3-2": ("qwen3", 2, {}),
    "odd-2": ("odd", 2, {"load_format": "dummy"}),
    "tiny-1": ("tiny-cycle", 1, {"dtype": "float32"}),
    "qwen3-1": ("qwen3", 1, {}),
}


@pytest.fixture(scope="module")
def loaded(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    models = tmp_path_factory.mktemp("models")
    install.model(install.environment(), models / "tiny-cycle")
    run(["-m", "scripts.checkpoints", str(models), "--kind", "qwen3", "--device", "cpu"], PYTHONPATH=str(CHECKOUT))
    odd = json.loads((models / "qwen3" / "config.json").read_text())
    odd |= {"num_key_value_heads": 1, "vocab_size": 2051, "tie_word_embeddings": True}
    (models / "odd").mkdir()
    (models / "odd" / "config.json").write_text(json.dumps(odd))
    engines, requests = [], []
    for model, ranks, more in _LOADED.values():
        engine = {"model": str(models / model), "tensor_parallel_size": ranks, "max_model_len": 1024, **more}
        engines.append(json.dumps(engine))
        argv = [engine.pop("model"), "--enforce-eager"]
        argv += [word for key, value in engine.items() for word in (f"--{key.replace('_', '-')}", str(value))]
        requests.append(encoded(argv))
    space = {"VLLM_CPU_KVCACHE_SPACE": "1"}
    told = run([str(_HERE / "several.py"), str(archive), *requests], **space).stdout.splitlines()
    # Both ranks share this machine's processors.
    alone = {"VLLM_HOST_IP": "127.0.0.1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    real = engines_of(run([str(_HERE / "witness.py"), *engines], **space, **alone).stdout)
    return {name: Loaded(json.loads(answer), engine) for name, answer, engine in zip(_LOADED, told, real, strict=True)}


def engines_of(log: str) -> list[Engine]:
    found, *rest = [], *re.split(r"^held: (.*)\n", log, flags=re.MULTILINE)
    for text, held in zip(rest[0::2], rest[1::2], strict=False):
        [tokens] = set(re.findall(r"KV cache size: ([0-9,]+) tokens", text))
        available = [float(it) for it in re.findall(r"Explicitly set \(([0-9.]+)/[0-9.]+\) GiB for KV cache", text)]
        ranks = json.loads(held)
        weights, cache = ([rank[name] for rank in ranks] for name in ("weights", "cache"))
        found.append(Engine(weights, cache, available, int(tokens.replace(",", ""))))
    return found


@pytest.mark.parametrize("name", _LOADED)
def test_weights_are_what_loaded_ranks_hold(loaded: dict[str, Loaded], name: str) -> None:
    """Also where a rank holds more than its share: heads of keys, padding of the vocabulary, norms, tables."""
    one = loaded[name]
    assert [rank["weights_bytes"] for rank in one.told["ranks"]] == one.real.weights


@pytest.mark.parametrize("name", _LOADED)
def test_the_pool_is_what_real_ranks_log_and_a_token_costs_what_they_take(loaded: dict[str, Loaded], name: str) -> None:
    told, real = loaded[name].told, loaded[name].real
    [pool] = told["pools"]
    assert (told["source"], pool["available"], pool["problem"]) == ("setting", _GIB, None)
    assert real.available == [1.0] * len(real.weights)
    assert pool["tokens"] == real.tokens
    assert [cache / real.tokens for cache in real.cache] == pytest.approx(
        [pool["bytes_per_token"]] * len(real.cache), rel=0.01
    )


def test_what_two_ranks_cannot_share_is_counted_on_both(loaded: dict[str, Loaded]) -> None:
    """The one head of keys of `odd` is on both ranks, so a token costs each as much as with two heads."""
    odd, shared = loaded["odd-2"].told, loaded["qwen3-2"].told
    [one], [two] = odd["pools"], shared["pools"]
    assert one["bytes_per_token"] * 2 == two["bytes_per_token"]


def checkpoint(folder: Path, sizes: Sizes, **config: Any) -> Path:
    """A DeepSeek-V4 of these dimensions: its configuration, and a file with a true header whose bytes are a hole."""
    folder.mkdir(parents=True)
    header, end = {}, 0
    for tensor in deepseek.tensors(KINDS["native"], sizes):
        for name, (shape, element) in tensor.stored().items():
            size = prod(shape) * _WIDTHS[element]
            header[name] = {"dtype": element, "shape": shape, "data_offsets": [end, end + size]}
            end += size
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    (folder / "config.json").write_text(json.dumps(deepseek.config(KINDS["native"], sizes) | config))
    return folder


@pytest.fixture(scope="module")
def flash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scaling = deepseek.config(KINDS["native"], FULL)["rope_scaling"] | {"original_max_position_embeddings": 65536}
    folder = tmp_path_factory.mktemp("deepseek") / "flash"
    return checkpoint(folder, FULL, max_position_embeddings=16 * 65536, rope_scaling=scaling)


@dataclass(frozen=True)
class Flash:
    """What a release's Python files say of DeepSeek-V4-Flash with its draft: on two GPUs with either cache type, on
    one, and with too little for a request of full length."""

    fp8: dict[str, Any]
    nvfp4: dict[str, Any]
    one: dict[str, Any]
    short: dict[str, Any]


@pytest.fixture(scope="module")
def told(flash: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Flash]:
    @cache
    def ask(release: str) -> Flash:
        def asked(ranks: int, dtype: str, *more: str, available: int = 10 * _GIB, **parts: Any) -> str:
            argv = [str(flash), "--kv-cache-dtype", dtype, "--block-size", "256", "--trust-remote-code"]
            argv += ["--tensor-parallel-size", str(ranks), "--distributed-executor-backend", "mp"]
            # Graphs are captured by kernels of packages that are not here.
            argv += ["--enforce-eager", "--speculative-config", DSPARK, "--max-num-seqs", "4", *more]
            capability = [9, 0] if release < "0.29" else [12, 1]
            return encoded(argv, device="cuda", capability=capability, gpus=ranks, available=available, **parts)

        # Older releases take it as given that some kinds come together.
        forgotten = [*KINDS_OF_CACHE.values()] if release in CI else []
        tree = trees.patched(release, tmp_path_factory.mktemp("patched") / "tree")
        requests = [
            asked(2, "fp8", "--max-model-len", "131072"),
            asked(2, "nvfp4_ds_mla", "--max-model-len", "131072"),
            asked(1, "fp8", "--max-model-len", "131072", without=forgotten),
            asked(1, "fp8", "--max-model-len", "1048576", available=_GIB),
        ]
        lines = run([str(_HERE / "uncompiled.py"), str(CHECKOUT), str(tree), *requests]).stdout.splitlines()
        return Flash(*map(json.loads, lines[-4:]))

    return ask


def kinds(told: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("draft", "layers", "window", "tokens_per_slot", "block_size", "page_bytes")
    return sorted(
        (one["layer"].replace("FlashMLA", "").replace("FlashInferSM120", ""), *(one[name] for name in names))
        for one in told["ranks"][0]["caches"]
    )


def page(slots: int, size: int) -> int:
    """Bytes of so many slots; FlashMLA's pages are multiples of 576 bytes."""
    return -(-slots * size // 576) * 576


def by_hand(sizes: Sizes) -> list[tuple[Any, ...]]:
    """Every cache of a model of these dimensions with pages of 256 tokens, worked out from the dimensions.

    A slot of a main or windowed cache has 448 bytes of values, 128 of rotated ones and 8 of scales; the indexer's has
    a byte each and 4 of scales. A compressor keeps values and scores as float32; by four it works on two overlapping
    windows.
    """
    slot, index = 448 + 128 + 8, sizes.index_dim + 4
    four, many = sizes.ratios.count(4), sizes.ratios.count(128)
    state, index_state = 2 * sizes.head_dim * 4, 2 * sizes.index_dim * 4
    return [
        ("CompressorStateCache", False, many, 128, 1, 8, page(8, state)),
        ("CompressorStateCache", False, four, 8, 1, 4, page(4, 2 * index_state)),
        ("CompressorStateCache", False, four, 8, 1, 4, page(4, 2 * state)),
        ("DeepseekV4Attention", False, many, None, 128, 256, page(256 // 128, slot)),
        ("DeepseekV4Attention", False, four, None, 4, 256, page(256 // 4, slot)),
        ("DeepseekV4IndexerCache", False, four, None, 4, 256, page(256 // 4, index)),
        ("DeepseekV4SWACache", False, sizes.layers, 128, 1, 64, page(64, slot)),
        ("DeepseekV4SWACache", True, sizes.stages, 128, 1, 64, page(64, slot)),
    ]


# The kinds of cache by the names that their layers have in FULL; the draft's stages count on behind the trunk.
KINDS_OF_CACHE = {
    "sliding window": r"\.(\d|[1-3]\d|4[0-2])\.attn\.swa_cache$",
    "the draft's sliding window": r"\.4[3-5]\.attn\.swa_cache$",
    "compressed by 4": r"[02468]\.attn$",
    "compressed by 128": r"[13579]\.attn$",
    "indexer": r"\.indexer\.k_cache$",
    "the indexer's compressor": r"\.indexer\.compressor\.state_cache$",
    "compressor by 4": r"[02468]\.attn\.compressor\.state_cache$",
    "compressor by 128": r"[13579]\.attn\.compressor\.state_cache$",
}


@pytest.mark.parametrize("release", ["0.25.1", "0.26.0", "0.28.0", "0.29.0", "0.31.0", "0.32.0", "0.33.0"])
def test_deepseek_v4_is_counted_without_a_gpu(
    told: Callable[[str], Flash], release: str, request: pytest.FixtureRequest
) -> None:
    """Window, compressed, indexer and draft caches; nvfp4_ds_mla has fp8_ds_mla's slots; weights as the files."""
    if release not in CI and not request.config.getoption("--every-release"):
        pytest.skip("not among the releases of CI; --every-release runs it")
    found = told(release)
    assert kinds(found.fp8) == by_hand(FULL)
    assert (found.nvfp4["ranks"], found.nvfp4["pools"]) == (found.fp8["ranks"], found.fp8["pools"])
    whole = found.one["checkpoint_bytes"]
    assert found.one["ranks"][0]["weights_bytes"] == pytest.approx(whole, rel=0.01)
    # Attention and experts are cut; norms and compressors are not.
    half, other = (rank["weights_bytes"] for rank in found.fp8["ranks"])
    assert half == other
    assert 0.5 * whole < half < 0.515 * whole
    [pool] = found.fp8["pools"]
    assert pool["problem"] is None
    assert pool["tokens"] > 131072
    [pool] = found.short["pools"]
    assert pool["tokens"] == 0
    assert "KV cache" in pool["problem"]


def test_most_kinds_of_cache_cost_room_of_their_own(told: Callable[[str], Flash]) -> None:
    """How much larger the pool of 0.33.0 would seem without one; the others lie beside larger ones in shared pages."""
    found = told("0.33.0").one
    [pool] = found["pools"]
    more = dict(
        zip(KINDS_OF_CACHE, (round(tokens / pool["tokens"] - 1, 2) for tokens in found["without"]), strict=True)
    )
    assert more == {
        "sliding window": 0.03,
        "the draft's sliding window": 0.0,
        "compressed by 4": 0.15,
        "compressed by 128": 0.04,
        "indexer": 0.15,
        "the indexer's compressor": 0.0,
        "compressor by 4": 0.0,
        "compressor by 128": 0.32,
    }


def test_the_shipped_profile_for_h200s_is_answered_flag_for_flag(flash: Path) -> None:
    """Also what needs the model's tokenizer in a server; a range, because nothing has run."""
    profile = load_profile(CHECKOUT, "h200-fp8-dspark").value
    words = [str(flash) if word == profile.serve["spec-model"] else word for word in flags(profile.serve)]
    assert "--reasoning-parser" in words
    told = of_release("0.33.0", [str(flash), *words], gpus=8, memory=143_771 * 2**20, beside=[16 * _GIB, 2 * _GIB])
    assert (told["source"], told["max_model_len"], len(told["ranks"])) == ("estimate", 1048576, 8)
    assert kinds(told) == by_hand(FULL)
    least, most = told["pools"]
    assert most["available"] - least["available"] == 14 * _GIB
    assert 1048576 < least["tokens"] < most["tokens"]


def of_release(release: str, argv: list[str], **parts: Any) -> dict[str, Any]:
    """The answer of a release as it was released, for an H200."""
    request = encoded(argv, device="cuda", capability=[9, 0], **parts)
    tree = str(trees.released(release))
    answer: dict[str, Any] = json.loads(run([str(_HERE / "uncompiled.py"), str(CHECKOUT), tree, request]).stdout)
    return answer


def test_an_h200_logged_the_pool_that_is_told_for_it(tmp_path: Path) -> None:
    """The recorded start of docs/proofs/h200-0.26.0.md: DeepSeek-V4-Flash with 4 layers, 2 GiB for its cache."""
    recorded = (CHECKOUT / "tests" / "cases" / "gates" / "logs" / "h200-0.26.0.log").read_text()
    looked = json.loads((CHECKOUT / "docs" / "proofs" / "h200-0.26.0-2.json").read_text())
    argv = [str(checkpoint(tmp_path / "model", REAL)), "--kv-cache-dtype", "fp8", "--block-size", "256"]
    argv += ["--max-model-len", "4096", "--max-num-seqs", "4", "--enforce-eager", "--max-num-batched-tokens", "128"]
    argv += ["--kv-cache-memory-bytes", str(2 * _GIB), "--speculative-config", DSPARK]
    told = of_release("0.26.0", argv)
    [pool] = told["pools"]
    assert (told["source"], pool["problem"]) == ("setting", None)
    [logged] = re.findall(r"GPU KV cache size: ([0-9,]+) tokens", recorded)
    assert pool["tokens"] == int(logged.replace(",", ""))
    caches = looked["cases"]["native-released"]["caches"]
    assert pool["blocks"] == caches[-1]["blocks"]
    assert kinds(told) == by_hand(REAL)
    assert pool["groups"] == len(caches) - 1
    # What kernels make of the weights is counted there too.
    [taken] = re.findall(r"Model loading took ([0-9.]+) GiB", recorded)
    assert told["ranks"][0]["weights_bytes"] / _GIB == pytest.approx(float(taken), rel=0.035)
