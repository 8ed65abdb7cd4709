"""What nodes say of their memory and GPUs, and what is made of it. GPUs' words are typed here: not verified on
hardware."""

from dataclasses import replace

import pytest

from launch.nodes import resources
from launch.nodes.resources import Resources, read, short
from launch.plan.container import Container
from launch.plan.group import RankPlan
from launch.plan.place import Place
from recipe.config.load import Loaded, load_hardware
from recipe.config.models import Hardware
from recipe.config.paths import CHECKOUT

GIB = 2**30
MEMORY = "MemTotal:       131072000 kB\nMemFree:        1 kB\nMemAvailable:   104857600 kB\nHugePages_Total:       0\n"
BOX = Container("n", "i", (), (), (), {}, "16g", "all", {})
RANK = RankPlan("a", 0, "host-a", None, ("vllm", "serve", "/m", "--gpu-memory-utilization", "0.8"), {}, {}, BOX, {})


def hardware(name: str) -> Loaded[Hardware]:
    return load_hardware(CHECKOUT, name)


def told(name: str, found: Resources, rank: RankPlan = RANK, *, serves: bool = False) -> list[str]:
    return [problem.message for problem in short("a", [rank], hardware(name), found, serves=serves)]


def test_memory_and_gpus_are_read_as_the_node_writes_them() -> None:
    found = read(MEMORY + "GPU 1024, 143771\nGPU [N/A], [N/A]\n")
    assert (found.available, found.total) == (100 * GIB, 125 * GIB)
    assert found.gpus == ((GIB, 143771 * 2**20), None)


def test_this_machine_says_what_it_has() -> None:
    found = resources.resources(Place("here", "local"))
    assert 0 < found.available <= found.total


def test_a_node_with_too_little_memory_is_told() -> None:
    rank = replace(RANK, env={"VLLM_CPU_KVCACHE_SPACE": "4"})
    few = Resources(5 * GIB, 8 * GIB, ())
    assert told("cpu", few, rank) == ["node a: 6.0 GiB of memory are needed, 5.0 GiB are there"]
    # What the old group has will be free.
    assert told("cpu", few, rank, serves=True) == []
    assert told("cpu", Resources(1 * GIB, 5 * GIB, ()), rank, serves=True) != []


def test_a_node_with_fewer_gpus_than_its_hardware_is_told() -> None:
    seven = Resources(1, 1, ((140 * GIB, 141 * GIB),) * 7)
    assert told("h200", seven) == ["node a has 7 GPUs, h200 has 8"]


def test_a_gpu_that_somebody_uses_is_told_unless_that_is_the_old_group() -> None:
    used = Resources(1, 1, ((100 * GIB, 140 * GIB), *((140 * GIB, 140 * GIB),) * 7))
    assert told("h200", used) == [
        "node a: GPU 0 has 100.0 GiB free, --gpu-memory-utilization 0.8 of its 140.0 GiB needs 112.0"
    ]
    assert told("h200", used, serves=True) == []
    assert told("h200", used, replace(RANK, argv=("vllm", "serve", "/m"))) == []


@pytest.mark.parametrize("gpus", [(), (None,)])
def test_what_a_node_does_not_say_is_no_finding(gpus: tuple[None, ...]) -> None:
    assert told("gb10", Resources(1, 1, gpus)) == []
