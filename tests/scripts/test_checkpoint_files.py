"""The tiny checkpoints as files, made in small dimensions by the Python that holds torch."""

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

from recipe.config import paths
from scripts.checkpoints import deepseek
from scripts.checkpoints.kinds import KINDS
from scripts.checkpoints.sizes import SMALL
from scripts.demo import install

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="vLLM's CPU build is for Linux on x86-64"
    ),
]

# Largest error of a round trip, as a share of its block's largest element; then one matrix by the formats' own words.
ROUND_TRIP = """
import json, torch
from scripts.checkpoints import encode
x = torch.randn(256, 256, generator=torch.Generator().manual_seed(1)) * 0.01
found = {}
for encoding, block in (("fp8", 128), ("mxfp4", 32), ("nvfp4", 16)):
    t = encode.encode("x", x, encoding)
    y = {
        "fp8": lambda: encode.decode_fp8(t["x.weight"], t["x.scale"]),
        "mxfp4": lambda: encode.decode_mxfp4(t["x.weight"], t["x.scale"]),
        "nvfp4": lambda: encode.decode_nvfp4(t["x.weight"], t["x.weight_scale"], t["x.weight_scale_2"]),
    }[encoding]()
    largest = x.unflatten(1, (-1, block)).abs().amax(-1, keepdim=True)
    found[encoding] = ((x - y).unflatten(1, (-1, block)).abs() / largest).max().item()
# Nibbles 1, -6 in the first byte, exponent 128 is a factor of 2.
byte = torch.full((1, 16), 0xF1, dtype=torch.uint8)
found["by hand"] = encode.decode_mxfp4(byte, torch.tensor([[128]], dtype=torch.uint8))[0, :2].tolist()
print(json.dumps(found))
"""


def python(*arguments: str) -> str:
    command = [str(install.environment() / "bin" / "python"), "-B", *arguments]
    done = subprocess.run(command, cwd=paths.CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    python("-m", "scripts.checkpoints", str(folder), "--small", "--device", "cpu")
    return folder


def headers(checkpoint: Path) -> dict[str, tuple[tuple[int, ...], str, str]]:
    """Every tensor that the files hold: name -> (shape, element type, file)."""
    found = {}
    for path in sorted(checkpoint.glob("*.safetensors")):
        data = path.read_bytes()
        header: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        for name, entry in header.items():
            if name != "__metadata__":
                found[name] = (tuple(entry["shape"]), entry["dtype"], path.name)
    return found


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_files_hold_the_kind_s_tensors_and_the_index_knows_where(kind: str, made: Path) -> None:
    found = headers(made / kind)
    wanted = {
        name: stored for tensor in deepseek.tensors(KINDS[kind], SMALL) for name, stored in tensor.stored().items()
    }
    assert {name: entry[:2] for name, entry in found.items()} == wanted
    index = json.loads((made / kind / "model.safetensors.index.json").read_text())["weight_map"]
    assert index == {name: entry[2] for name, entry in found.items()}


def test_the_dense_draft_has_no_embedding_of_its_own(made: Path) -> None:
    assert "model.embed_tokens.weight" in headers(made / "qwen3")
    assert not [name for name in headers(made / "qwen3-draft") if "embed" in name or "lm_head" in name]


def test_the_same_seed_makes_the_same_files(made: Path, tmp_path: Path) -> None:
    python("-m", "scripts.checkpoints", str(tmp_path), "--small", "--device", "cpu", "--kind", "native")
    for path in (tmp_path / "native").iterdir():
        assert path.read_bytes() == (made / "native" / path.name).read_bytes(), path.name


def test_another_seed_makes_other_files_in_the_same_folder(tmp_path: Path) -> None:
    arguments = ("-m", "scripts.checkpoints", str(tmp_path), "--small", "--device", "cpu", "--kind", "native")
    found = []
    for seed in ("1", "2", "1"):
        python(*arguments, "--seed", seed)
        found.append([path.read_bytes() for path in sorted((tmp_path / "native").glob("*.safetensors"))])
    assert found[0] == found[2]
    assert found[0] != found[1]


def test_every_format_comes_back_as_near_as_its_steps_allow() -> None:
    found = json.loads(python("-c", ROUND_TRIP))
    assert found["by hand"] == [1.0, -12.0]
    # FP4: half of the widest step (4 to 6); MXFP4's scale is a power of two and may cut off a quarter of the largest.
    # FP8: half of a step is a sixteenth of the element.
    assert 0.05 < found["nvfp4"] < 0.2
    assert 0.05 < found["mxfp4"] <= 0.25 + 1e-6
    assert 0.01 < found["fp8"] <= 0.0625
