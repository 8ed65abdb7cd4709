"""The three block formats of the checkpoints, both ways: float32 -> stored tensors -> float32.

Written from the formats' definitions and apart from vLLM's code, so that what vLLM loads can be judged by it.
Tensors are torch's; every function works on any device.
"""

import itertools
from typing import Any

from scripts.checkpoints.deepseek import FP8_BLOCK, MXFP4_BLOCK, NVFP4_BLOCK, Encoding

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of a 4-bit float, by its lower three bits; the fourth bit is the sign."""
_E4M3_MAX = 448.0
_E8M0_BIAS = 127


def encode(name: str, value: Any, encoding: Encoding) -> dict[str, Any]:
    """The stored tensors of the float32 matrix `value`, by their names in the file."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    if encoding in ("bf16", "f32", "i64"):
        return {name: value.to({"bf16": torch.bfloat16, "f32": torch.float32, "i64": torch.int64}[encoding])}
    if encoding == "fp8":
        weight, scale = _fp8(value)
        return {f"{name}.weight": weight, f"{name}.scale": scale}
    if encoding == "mxfp4":
        blocks = value.unflatten(-1, (-1, MXFP4_BLOCK))
        # The largest magnitude of the format is 6, so the exponent of the largest element comes to 2.
        exponent = torch.floor(torch.log2(blocks.abs().amax(-1).clamp_min(2.0**-100))) - 2
        weight = _pack(blocks / torch.exp2(exponent).unsqueeze(-1)).view(torch.int8)
        return {f"{name}.weight": weight, f"{name}.scale": _e8m0(exponent)}
    blocks = value.unflatten(-1, (-1, NVFP4_BLOCK))
    # One number for every matrix: vLLM wants the same one for an expert's gate and up matrices.
    scale_2 = torch.tensor(2.0**-14, device=value.device)
    scale = (blocks.abs().amax(-1) / E2M1[-1] / scale_2).clamp(2.0**-9, _E4M3_MAX).to(torch.float8_e4m3fn)
    return {
        f"{name}.weight": _pack(blocks / (scale.float() * scale_2).unsqueeze(-1)),
        f"{name}.weight_scale": scale,
        f"{name}.weight_scale_2": scale_2,
        f"{name}.input_scale": torch.tensor(2.0**-6, device=value.device),
    }


def decode_mxfp4(weight: Any, scale: Any) -> Any:
    """float32 of packed nibbles [..., n, k/2] and their exponents as bytes [..., n, k/32]."""
    import torch

    factor = torch.exp2(scale.view(torch.uint8).float() - _E8M0_BIAS)
    return _scaled(weight, factor, MXFP4_BLOCK)


def decode_nvfp4(weight: Any, scale: Any, scale_2: Any) -> Any:
    """float32 of packed nibbles [..., n, k/2], their E4M3 scales [..., n, k/16] and the tensor's own factor."""
    return _scaled(weight, scale.float() * scale_2, NVFP4_BLOCK)


def decode_fp8(weight: Any, scale: Any) -> Any:
    """float32 of an E4M3 matrix [n, k] and its exponents [n/128, k/128]."""
    import torch

    factor = torch.exp2(scale.view(torch.uint8).float() - _E8M0_BIAS)
    factor = factor.repeat_interleave(FP8_BLOCK, 0).repeat_interleave(FP8_BLOCK, 1)
    return weight.float() * factor[: weight.shape[0], : weight.shape[1]]


def _scaled(weight: Any, factor: Any, block: int) -> Any:
    import torch

    table = torch.tensor([*E2M1, *(-v for v in E2M1)], device=weight.device)
    nibbles = weight.view(torch.uint8)
    values = table[torch.stack((nibbles & 15, nibbles >> 4), dim=-1).int().flatten(-2)]
    return (values.unflatten(-1, (-1, block)) * factor.unsqueeze(-1)).flatten(-2)


def _pack(blocks: Any) -> Any:
    """Nibbles of the nearest 4-bit floats, two a byte, the first in the lower half; [n, blocks, size] -> [n, k/2]."""
    import torch

    edges = torch.tensor([(a + b) / 2 for a, b in itertools.pairwise(E2M1)], device=blocks.device)
    codes = torch.bucketize(blocks.abs(), edges).to(torch.uint8) | (blocks < 0).to(torch.uint8) << 3
    pairs = codes.flatten(-2).unflatten(-1, (-1, 2))
    return pairs[..., 0] | pairs[..., 1] << 4


def _fp8(value: Any) -> tuple[Any, Any]:
    import torch

    rows, columns = value.shape
    padded = torch.nn.functional.pad(value, (0, -columns % FP8_BLOCK, 0, -rows % FP8_BLOCK))
    blocks = padded.unflatten(1, (-1, FP8_BLOCK)).unflatten(0, (-1, FP8_BLOCK))
    largest = blocks.abs().amax(dim=(1, 3))
    exponent = torch.ceil(torch.log2(largest.clamp_min(2.0**-100) / _E4M3_MAX))
    scaled = blocks / torch.exp2(exponent)[:, None, :, None]
    weight = scaled.to(torch.float8_e4m3fn).flatten(2, 3).flatten(0, 1)[:rows, :columns].contiguous()
    return weight, _e8m0(exponent)


def _e8m0(exponent: Any) -> Any:
    import torch

    return (exponent + _E8M0_BIAS).to(torch.uint8).view(torch.float8_e8m0fnu)
