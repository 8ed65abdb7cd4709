"""`python -m scripts.checkpoints DIR`: make the tiny checkpoints of the proofs, one folder a kind.

Needs torch and safetensors, which are no dependencies of this project: run it with the Python that runs vLLM.
"""

import argparse
import importlib.util
from pathlib import Path

from scripts.checkpoints import qwen3, write
from scripts.checkpoints.kinds import KINDS, QWEN3
from scripts.checkpoints.sizes import REAL, SMALL


def main() -> int:
    """Make what the command line asks for; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.checkpoints", description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", action="append", choices=[*KINDS, QWEN3], help="default: all")
    parser.add_argument("--seed", type=_seed, default=20261201)
    parser.add_argument("--device", default="cuda", help="where the values are made: cuda or cpu")
    parser.add_argument("--small", action="store_true", help="dimensions that no kernel runs with, for tests")
    options = parser.parse_args()
    if wrong := _wrong(options.folder, options.device):
        parser.error(wrong)
    kinds = options.kind or [*KINDS, QWEN3]
    sizes = SMALL if options.small else REAL
    wanted = [kind for kind in kinds if kind != QWEN3]
    write.deepseek_kinds(options.folder, wanted, sizes, options.seed, options.device)
    if QWEN3 in kinds:
        qwen3.write_pair(options.folder, options.seed, options.device)
    print(*(options.folder / kind for kind in kinds), sep="\n")
    return 0


def _seed(text: str) -> int:
    seed = int(text)
    # The generators of single tensors get it shifted by 32 bits.
    if not 0 <= seed < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to {(1 << 31) - 1}")
    return seed


def _wrong(folder: Path, device: str) -> str | None:
    """Why nothing can be made; None when it can."""
    if not all(importlib.util.find_spec(name) for name in ("torch", "safetensors")):
        return "this Python has no torch and safetensors — run it with the one that runs vLLM"
    import torch  # type: ignore[import-not-found,unused-ignore]

    try:
        torch.zeros(1, device=device)
    except (AssertionError, RuntimeError) as error:
        return f"--device {device}: {str(error).splitlines()[0]} — write --device cpu"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{folder}: {error.strerror} — name a folder that can be written"
    return None


if __name__ == "__main__":
    raise SystemExit(main())
