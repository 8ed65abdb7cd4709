"""Values for a DeepSeek-V4 checkpoint: a model that says something, and whose draft needs its own experts to follow.

The hidden state has three parts. CODE holds a random code of the current token, straight from the embedding; ANSWER
starts empty, and the routed experts copy the code into it (up matrix R, down matrix R transposed, a gate that
SWITCH, a few constant elements, holds open). The output row of a token carries, in ANSWER, the code of the token
before it in one long cycle, and more weakly, in CODE, that of a token before it in another cycle, the decoy. So with
the experts' work the next token of the cycle wins, without it the decoy does.

The trunk's attention adds noise that depends on the context; its size sets how often another token wins, and with it
how often a draft, whose own attention is quiet, is right. A noise token of the draft's block has no code and a
SWITCH that shuts the experts' gate, so behind the anchor the Markov head decides: its rows carry the same cycle, with
less weight than hidden states have that point nowhere.

All values come from a seed and the tensor's name; they are the same on every device of one type.
"""

import math
import zlib
from dataclasses import dataclass
from typing import Any

from scripts.checkpoints.deepseek import Tensor
from scripts.checkpoints.sizes import Sizes

_OPEN, _SHUT = 2.0, -3.0
"""SWITCH of a token's embedding and of the noise token's."""
_GATE = 3.0
"""The experts' gate before its activation, for a token."""
_UP_GAIN = 0.5
"""Standard deviation that one expert adds to ANSWER for a code with 1."""
_DECOY = 0.3
_MARKOV = 1.8
_KV = 2.0
"""Size of cache entries; twice the usual makes heads attend to few tokens."""
_HEAD_OUT = 0.95
"""What a head's output is taken to measure then."""
_DRAFT_NOISE = 0.02


def generator(seed: int, name: str, device: str) -> Any:
    """The generator of one tensor's values."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    mixed = zlib.crc32(name.encode())
    if device == "cpu":
        # Torch's generator of the CPU keeps the lower 32 bits only.
        mixed ^= seed
    return torch.Generator(device).manual_seed(seed << 32 | mixed)


@dataclass(frozen=True)
class Filler:
    """Makes the values of one checkpoint; `noise` is what the attention of each trunk layer adds, per element."""

    sizes: Sizes
    seed: int
    device: str
    noise: tuple[float, ...] = (0.3, 1.0, 2.0, 20.0)

    def value(self, tensor: Tensor) -> Any:
        """The tensor as float32, or as int64 where it holds indices."""
        import torch  # type: ignore[import-not-found,unused-ignore]

        name, shape = tensor.name, tensor.shape
        last = name.removesuffix(".weight").rpartition(".")[2]
        if last in ("embed", "head"):
            return self._embedding() if last == "embed" else self._output()
        if last in ("markov_w1", "markov_w2"):
            return self._markov(last)
        if ".experts." in name:
            return self._expert(name, shape, last)
        if last == "tid2eid":
            order = torch.rand(shape[0], self.sizes.experts, generator=self._generator(name), device=self.device)
            return order.argsort(-1)[:, : shape[1]]
        if last.startswith("hc_"):
            return self._streams(name, last, shape)
        if last.endswith("norm") or name.endswith("compressor.norm.weight"):
            size = _KV if last == "kv_norm" or ".compressor.norm" in name else 1.0
            return torch.full(shape, size, device=self.device)
        if last == "attn_sink":
            return torch.zeros(shape, device=self.device)
        return self._normal(name, shape, self._deviation(name, last, shape)) * self._without_switch(last, shape)

    def _deviation(self, name: str, last: str, shape: tuple[int, ...]) -> float:
        if last == "wo_b":
            kind, index = name.split(".")[:2]
            noise = self.noise[int(index)] if kind == "layers" else _DRAFT_NOISE
            return noise / (_HEAD_OUT * math.sqrt(shape[1]))
        if last in ("ape", "bias"):
            return 0.05
        if ".shared_experts." in name:
            # They work, and say nothing about the next token.
            return 0.2 / math.sqrt(shape[1])
        return 1 / math.sqrt(shape[-1])

    def _without_switch(self, last: str, shape: tuple[int, ...]) -> Any:
        """Ones, but zero in the SWITCH columns of what reads hidden states: a constant says nothing of a token."""
        import torch

        mask = torch.ones(shape[-1], device=self.device)
        if last in ("wkv", "wq_a", "wgate", "gate", "weights_proj") and shape[-1] == self.sizes.hidden:
            mask[: self._switch] = 0
        return mask

    @property
    def _switch(self) -> int:
        return self.sizes.hidden // 32

    @property
    def _codes(self) -> int:
        return (self.sizes.hidden - self._switch) // 2

    def _parts(self, matrix: Any) -> tuple[Any, Any, Any]:
        """Views of a [..., hidden] tensor: SWITCH, ANSWER, CODE."""
        answer = self._switch + self._codes
        # CODE lies in the upper half: FP4 scales of the wrong block size end in the middle of a row.
        return matrix[..., : self._switch], matrix[..., self._switch : answer], matrix[..., answer:]

    def _generator(self, name: str) -> Any:
        return generator(self.seed, name, self.device)

    def _normal(self, name: str, shape: tuple[int, ...], deviation: float) -> Any:
        import torch

        return torch.randn(shape, generator=self._generator(name), device=self.device) * deviation

    def _embedding(self) -> Any:
        import torch

        table = torch.zeros(self.sizes.vocabulary, self.sizes.hidden, device=self.device)
        switch, _, code = self._parts(table)
        switch[:] = _OPEN
        code[:] = self._normal("code", (self.sizes.vocabulary, self._codes), 1.0)
        table[self.sizes.noise_token] = 0
        switch[self.sizes.noise_token] = _SHUT
        return table

    def _output(self) -> Any:
        import torch

        table = torch.zeros(self.sizes.vocabulary, self.sizes.hidden, device=self.device)
        _, answer, code = self._parts(table)
        codes = self._normal("code", (self.sizes.vocabulary, self._codes), 1.0) / math.sqrt(self._codes)
        for part, name, size in ((answer, "cycle", 1.0), (code, "decoy", _DECOY)):
            tokens = self._cycle(name)
            part[tokens.roll(-1)] = codes[tokens] * size
        return table

    def _cycle(self, name: str) -> Any:
        """All ordinary tokens in a random order: each is followed by the next, the last by the first."""
        import torch

        count = self.sizes.vocabulary - 3
        return torch.randperm(count, generator=self._generator(name), device=self.device) + 2

    def _markov(self, last: str) -> Any:
        import torch

        codes = self._normal("markov", (self.sizes.vocabulary, self.sizes.markov), 1.0)
        codes /= codes.norm(dim=-1, keepdim=True)
        if last == "markov_w1":
            return codes
        table = torch.zeros_like(codes)
        tokens = self._cycle("cycle")
        table[tokens.roll(-1)] = codes[tokens] * _MARKOV
        return table

    def _expert(self, name: str, shape: tuple[int, ...], last: str) -> Any:
        """w1 is the gate, w3 the up and w2 the down matrix."""
        import torch

        small = 1 / math.sqrt(self._codes)
        copied = self._normal(name.rpartition(".")[0] + ".copy", (self.sizes.intermediate, self._codes), 1.0)
        if last == "w1":
            matrix = self._normal(name, shape, 0.5 * small)
            self._parts(matrix)[0].add_(_GATE / (_OPEN * self._switch))
            return matrix
        if last == "w3":
            matrix = self._normal(name, shape, 0.2 * small)
            self._parts(matrix)[2].copy_(copied * small)
            return matrix
        opened = _GATE / (1 + math.exp(-_GATE))
        matrix = self._normal(name, (shape[1], shape[0]), 0.0005)
        self._parts(matrix)[1].copy_(copied * (_UP_GAIN / (opened * self.sizes.intermediate * small)))
        return torch.t(matrix).contiguous()

    def _streams(self, name: str, last: str, shape: tuple[int, ...]) -> Any:
        """The residual streams' mixing: they stay nearly equal, and the layers see their mean."""
        import torch

        if last.endswith("_fn"):
            return self._normal(name, shape, 0.0005)
        if last.endswith("_scale"):
            return torch.ones(shape, device=self.device)
        streams = self.sizes.streams
        base = torch.full((streams,), -math.log(streams - 1), device=self.device)
        if last == "hc_head_base":
            return base
        keep = 3 * torch.eye(streams, device=self.device).flatten()
        return torch.cat((base, torch.zeros(streams, device=self.device), keep))
