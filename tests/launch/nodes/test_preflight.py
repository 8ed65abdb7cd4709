"""What a machine is looked at for; whole launches that are refused are in tests/launch/ledger/test_refused.py."""

import platform
import shutil
from types import SimpleNamespace

import pytest

from launch.ledger.launch import Wanted, want
from launch.ledger.work import work
from launch.nodes.preflight import model_folder, problems
from tests.standin.world import World


def wanted(world: World) -> Wanted:
    return want(work(world.home, "pair", lambda line: None), None, None)


def found(world: World) -> list[str]:
    plan = wanted(world)
    return [str(one) for one in problems(plan.plan, plan.hardware, world.loaded(), [])]


def test_a_machine_that_fits_has_no_problems(world: World) -> None:
    assert found(world) == []


def test_all_problems_are_told_at_once(world: World) -> None:
    (world.models / "tiny" / "config.json").unlink()
    world.hardware(**{"rank-memory-gib": 100_000})
    assert len(found(world)) == 2


def test_another_system_is_all_that_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.models / "tiny" / "config.json").unlink()
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert found(world) == ["the process engine needs Linux, this is Darwin — use the docker engine"]


def test_small_shared_memory_is_a_problem(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage
    small = SimpleNamespace(free=64 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: small if str(path) == "/dev/shm" else usage(path))
    assert found(world) == ["/dev/shm has 64 MiB free, vLLM needs 160 — enlarge it"]


def test_the_cache_of_every_rank_counts_as_memory(world: World) -> None:
    world.profile("a", env={"VLLM_CPU_KVCACHE_SPACE": "50000"})
    assert "2 ranks need about 100000.0 GiB" in found(world)[0]


def test_the_model_is_the_argument_before_the_first_flag(world: World) -> None:
    world.profile("a", entrypoint=["python", "-m", "vllm", "serve"])
    assert model_folder(wanted(world).plan) == world.models / "tiny"
