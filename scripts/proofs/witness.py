"""Compares the routed experts that vLLM holds with those of the checkpoint, layer by layer.

Two witnesses, both against the checkpoint's own files read and decoded apart from vLLM. *As loaded*: when the weights
have arrived and before they are repacked, the parameters are decoded as the chosen method would read them; the error
is the largest difference of any element as a share of the largest element. *Through the kernel*: after the start the
method is applied to a seeded input, and its output compared with the same sum computed in float32.
Runs inside the engine's process; needs vLLM and torch.
"""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.checkpoints import encode
from scripts.checkpoints.write import INDEX

_METHODS = {
    "Mxfp4MoEMethod": "vllm.model_executor.layers.quantization.mxfp4",
    "ModelOptNvFp4FusedMoE": "vllm.model_executor.layers.quantization.modelopt",
}
_TOKENS = 16
_LIMIT = 10.0


@dataclass
class Layer:
    """What was seen of one layer's routed experts; an error is None when a number is not finite."""

    name: str
    method: str
    kind: str
    as_loaded: float | None
    wrong: float
    backend: str = ""
    kernel: float | None = None
    judged: bool = False


@dataclass
class Witness:
    """Watches one engine. `install` before it is built, `kernel` once it runs."""

    checkpoint: Path
    trunk_layers: int
    layers: list[Layer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._held: list[tuple[Layer, Any, str]] = []

    def install(self) -> None:
        """Look at every layer's experts when vLLM says that its weights have arrived."""
        import importlib

        for name, module in _METHODS.items():
            method = getattr(importlib.import_module(module), name)
            self._wrap(method, method.process_weights_after_loading)

    def _wrap(self, method: type, original: Any) -> None:
        def watched(chosen: Any, layer: Any) -> Any:
            self._look(chosen, layer)
            return original(chosen, layer)

        method.process_weights_after_loading = watched  # type: ignore[attr-defined]

    def _look(self, method: Any, layer: Any) -> None:
        import torch  # type: ignore[import-not-found,unused-ignore]

        number = int(layer.layer_name.partition("layers.")[2].partition(".")[0])
        draft = number >= self.trunk_layers
        prefix = f"mtp.{number - self.trunk_layers}" if draft else f"layers.{number}"
        held = _held(type(method).__name__, layer)
        largest, wrong, elements, kind = 0.0, 0, 0, ""
        for expert in range(held["w2"].shape[0]):
            for matrix in ("w1", "w2", "w3"):
                expected, kind = self._expected(f"{prefix}.ffn.experts.{expert}.{matrix}", held["w2"].device)
                found = held[matrix][expert]
                error = (found - expected).abs() / expected.abs().max()
                error = torch.where(torch.isfinite(error), error, torch.inf)
                largest = max(largest, float(error.max()))
                wrong += int((error > 0).sum())
                elements += error.numel()
        as_loaded = largest if math.isfinite(largest) else None
        seen = Layer(prefix, type(method).__name__, kind, as_loaded, wrong / elements, _backend(method))
        self.layers.append(seen)
        self._held.append((seen, layer, prefix))

    def _expected(self, name: str, device: Any) -> tuple[Any, str]:
        """The matrix in the checkpoint, float32, and the kind of its encoding."""
        from safetensors import safe_open  # type: ignore[import-not-found,unused-ignore]

        index = json.loads((self.checkpoint / INDEX).read_text(encoding="utf-8"))["weight_map"]
        with safe_open(self.checkpoint / index[f"{name}.weight"], framework="pt", device=str(device)) as file:
            weight = file.get_tensor(f"{name}.weight")
            if f"{name}.scale" in index:
                return encode.decode_mxfp4(weight, file.get_tensor(f"{name}.scale")), "MXFP4"
            scales = (file.get_tensor(f"{name}.weight_scale"), file.get_tensor(f"{name}.weight_scale_2"))
            return encode.decode_nvfp4(weight, *scales), "NVFP4"

    def kernel(self) -> None:
        """Apply every layer's method to a seeded input and fill in `kernel`: |found - expected| / |expected|."""
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        with torch.inference_mode():
            for seen, layer, prefix in self._held:
                seen.kernel, seen.judged = self._kernel(layer, prefix), True

    def _kernel(self, layer: Any, prefix: str) -> float | None:
        import torch

        device = layer.w2_weight.device
        generator = torch.Generator(device).manual_seed(1)
        x = torch.randn(_TOKENS, layer.hidden_size, generator=generator, device=device).to(torch.bfloat16)
        scores = torch.rand(_TOKENS, layer.global_num_experts, generator=generator, device=device)
        weights, chosen = scores.softmax(-1).topk(layer.top_k)
        found = layer.quant_method.apply(layer, x.clone(), weights, chosen.to(torch.int32), None, None).float()
        expected = torch.zeros_like(found)
        for expert in range(layer.global_num_experts):
            w1, w2, w3 = (
                self._expected(f"{prefix}.ffn.experts.{expert}.{matrix}", device)[0] for matrix in ("w1", "w2", "w3")
            )
            gate, up = x.float() @ w1.T, x.float() @ w3.T
            inner = torch.nn.functional.silu(gate.clamp(max=_LIMIT)) * up.clamp(-_LIMIT, _LIMIT)
            share = torch.where(chosen == expert, weights, 0).sum(-1, keepdim=True)
            expected += share * (inner @ w2.T)
        error = float((found - expected).norm() / expected.norm())
        return error if math.isfinite(error) else None


def _backend(method: Any) -> str:
    """The kernel that the method has chosen."""
    chosen = getattr(method, "mxfp4_backend", None) or getattr(method, "nvfp4_backend", None)
    return str(getattr(chosen, "value", chosen or ""))


def _held(method: str, layer: Any) -> dict[str, Any]:
    """w1, w2 and w3 of all experts as the method reads its parameters, float32."""
    half = layer.w13_weight.shape[1] // 2
    rows = {"w1": slice(0, half), "w3": slice(half, None)}
    if method == "Mxfp4MoEMethod":
        found = {
            name: encode.decode_mxfp4(layer.w13_weight.data[:, part], layer.w13_weight_scale.data[:, part])
            for name, part in rows.items()
        }
        return found | {"w2": encode.decode_mxfp4(layer.w2_weight.data, layer.w2_weight_scale.data)}
    found = {
        name: encode.decode_nvfp4(
            layer.w13_weight.data[:, part],
            layer.w13_weight_scale.data[:, part],
            layer.w13_weight_scale_2.data[:, shard, None, None],
        )
        for shard, (name, part) in enumerate(rows.items())
    }
    scale_2 = layer.w2_weight_scale_2.data[:, None, None]
    return found | {"w2": encode.decode_nvfp4(layer.w2_weight.data, layer.w2_weight_scale.data, scale_2)}
