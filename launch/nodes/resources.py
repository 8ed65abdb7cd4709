"""Whether nodes of a docker cluster have the GPUs and the memory that a plan needs, as far as they say so."""

from collections.abc import Iterator
from dataclasses import dataclass

from launch.nodes import reach
from launch.nodes.variables import number
from launch.plan.group import RankPlan
from launch.plan.place import Place
from recipe.config.load import Loaded
from recipe.config.models import Hardware
from recipe.errors import Problem

_GIB = 2**30
_MIB = 2**20
# A node without the program, or whose driver does not answer, tells nothing of its GPUs.
_LOOK = (
    "cat /proc/meminfo; nvidia-smi --query-gpu=memory.free,memory.total --format=csv,noheader,nounits"
    " 2>/dev/null | sed 's/^/GPU /'"
)
_UTILIZATION = "--gpu-memory-utilization"


@dataclass(frozen=True)
class Resources:
    """`available`, `total`: bytes of memory; `gpus`: free and total bytes of each, None where a GPU does not say."""

    available: int
    total: int
    gpus: tuple[tuple[int, int] | None, ...]


def resources(place: Place) -> Resources:
    """What the node says it has. Errors: Unreachable."""
    return read(reach.run(place, ("sh", "-c", _LOOK)).stdout)


def read(text: str) -> Resources:
    """From /proc/meminfo and lines `GPU FREE, TOTAL` in MiB, as nvidia-smi writes them."""
    memory, gpus = {}, []
    for line in text.splitlines():
        words = line.replace(",", " ").split()
        if line.startswith("GPU "):
            # GPUs that share the machine's memory write [N/A].
            told = [int(word) * _MIB for word in words[1:] if word.isdigit()]
            gpus.append((told[0], told[1]) if len(told) == 2 else None)
        elif len(words) == 3 and words[2] == "kB":
            memory[words[0]] = int(words[1]) * 1024
    return Resources(memory.get("MemAvailable:", 0), memory.get("MemTotal:", 0), tuple(gpus))


def short(
    name: str, ranks: list[RankPlan], hardware: Loaded[Hardware], found: Resources, *, serves: bool
) -> Iterator[Problem]:
    """What the node `name` lacks for its ranks; while the old group `serves`, what is free now says nothing."""
    each = hardware.value.rank_memory_gib
    there = found.total if serves else found.available
    if each is not None and there:
        needed = each * len(ranks) + sum(number(rank.env, "VLLM_CPU_KVCACHE_SPACE", 0) for rank in ranks)
        if needed * _GIB > there:
            yield Problem(
                f"node {name}: {needed:.1f} GiB of memory are needed, {there / _GIB:.1f} GiB are there",
                hardware.document.where(("rank-memory-gib",)),
                "end other programs there, or lower VLLM_CPU_KVCACHE_SPACE",
            )
    if not found.gpus or not any(rank.container and rank.container.gpus for rank in ranks):
        return
    if len(found.gpus) < hardware.value.gpus:
        yield Problem(
            f"node {name} has {len(found.gpus)} GPUs, {hardware.name} has {hardware.value.gpus}",
            hardware.document.where(("gpus",)),
            "choose a profile for that machine, or see what `nvidia-smi` there lacks",
        )
    share = max((_share(rank) for rank in ranks), default=0.0)
    for place, memory in enumerate(found.gpus):
        # vLLM itself refuses to start with less.
        if not serves and memory is not None and memory[0] < share * memory[1]:
            yield Problem(
                f"node {name}: GPU {place} has {memory[0] / _GIB:.1f} GiB free, {_UTILIZATION} {share:g} of its"
                f" {memory[1] / _GIB:.1f} GiB needs {share * memory[1] / _GIB:.1f}",
                None,
                "`nvidia-smi` there says what uses it",
            )


def _share(rank: RankPlan) -> float:
    """What the profile writes; without it vLLM's own default counts, which differs between releases."""
    if _UTILIZATION not in rank.argv:
        return 0.0
    return float(rank.argv[rank.argv.index(_UTILIZATION) + 1])
