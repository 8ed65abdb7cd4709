"""The dimensions of the tiny checkpoints: real where kernels need them, small elsewhere."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Dimensions of a DeepSeek-V4 checkpoint, in elements; `ratios` is the compression ratio of each trunk layer."""

    hidden: int
    heads: int
    head_dim: int
    rope: int
    q_lora: int
    o_lora: int
    o_groups: int
    index_heads: int
    index_dim: int
    index_topk: int
    intermediate: int
    ratios: tuple[int, ...] = (0, 4, 128, 4)
    experts: int = 8
    top_k: int = 6
    stages: int = 3
    hash_layers: int = 1
    vocabulary: int = 2048
    markov: int = 256
    block: int = 5
    streams: int = 4
    targets: tuple[int, ...] = (1, 2, 3)

    @property
    def layers(self) -> int:
        """Layers of the trunk."""
        return len(self.ratios)

    @property
    def noise_token(self) -> int:
        """The token that fills the draft's block behind the anchor."""
        return self.vocabulary - 1


REAL = Sizes(
    hidden=4096,
    heads=64,
    head_dim=512,
    rope=64,
    q_lora=1024,
    o_lora=1024,
    o_groups=8,
    index_heads=64,
    index_dim=128,
    index_topk=512,
    intermediate=2048,
)
"""DeepSeek-V4-Flash's own dimensions, with 4 of 43 layers, 8 of 256 experts and a vocabulary of 2,048."""

SMALL = Sizes(
    hidden=256,
    heads=4,
    head_dim=64,
    rope=16,
    q_lora=128,
    o_lora=32,
    o_groups=2,
    index_heads=4,
    index_dim=32,
    index_topk=16,
    intermediate=128,
    vocabulary=128,
    markov=32,
)
"""For tests of the maker; no kernel runs with these."""
