"""What `fit` asks about a plan, what it reads in logs, and how it tells an answer."""

from collections.abc import Callable
from typing import Any

import pytest

from launch.plan.group import GroupPlan
from launch.plan.sizes import Measured, fit, measured, request
from recipe.config.check import Checked, check_cluster
from recipe.config.paths import CHECKOUT
from recipe.errors import Refused

GIB = 2**30
ON_CPU = (
    "(Worker_TP0 pid=27458) INFO 12-01 14:13:31 [cpu_worker.py:260] {} set (1.0/23.54) GiB for KV cache on node 0{}\n"
    "(MainProcess pid=24892) INFO 12-01 14:13:31 [kv_cache_utils.py:2327] CPU KV cache size: 2,097,152 tokens, Maximum"
    " concurrency for 1,024 tokens per request: 2048.00x\n"
)
AUTO = (", with 2.0 GiB requested memory for the worker. 1.0 GiB memory was consumed by non-kv usages.",)


@pytest.mark.parametrize("line", [ON_CPU.format("Explicitly", "."), ON_CPU.format("Auto", *AUTO)])
def test_bytes_and_tokens_are_read_in_the_lines_of_vllm_0_32_on_a_cpu(line: str) -> None:
    assert measured([line]) == Measured(GIB, 2097152)


def test_the_smallest_rank_and_the_last_start_count() -> None:
    """Of the line of a GPU's worker, as its source has it, and the recorded one of an H200 with a given size."""
    logs = [f"Available KV cache memory: {gib} GiB\n" for gib in ("31.25", "30.5")]
    assert measured(["Available KV cache memory: 3.0 GiB\n" + logs[0], logs[1]]) == Measured(int(30.5 * GIB), None)
    recorded = (CHECKOUT / "tests" / "cases" / "gates" / "logs" / "h200-0.26.0.log").read_text()
    assert measured([recorded]) == Measured(None, 774245)


def test_nothing_is_read_in_a_log_without_those_lines() -> None:
    assert measured(["INFO Starting to load model\n", ""]) == Measured(None, None)


def asked(plan: Callable[..., GroupPlan], cluster: str, available: int | None, memory: int | None) -> dict[str, Any]:
    checked = check_cluster(CHECKOUT, cluster, None)
    return request(checked.profile.value, checked.hardware.value, plan(cluster).ranks[0], available, memory)


def test_ranks_are_asked_for_as_one_group_whatever_node_they_are_on(plan: Callable[..., GroupPlan]) -> None:
    found = asked(plan, "two-spark.example", None, 119 * GIB)
    argv = found["argv"]
    assert argv[argv.index("--tensor-parallel-size") + 1] == "2"
    assert not [flag for flag in argv if flag in ("--nnodes", "--node-rank", "--master-addr", "--headless", "--port")]
    assert (found["device"], found["capability"], found["gpus"]) == ("cuda", [12, 1], 2)
    # The most that may lie beside the cache comes first, for the smallest pool.
    assert found["beside"] == [16 * GIB, 3 * GIB]


def test_copies_of_a_model_are_refused(plan: Callable[..., GroupPlan]) -> None:
    checked = check_cluster(CHECKOUT, "h200-8.example", None)
    profile = checked.profile.value.model_copy(
        update={"serve": {**checked.profile.value.serve, "data-parallel-size": 2}}
    )
    with pytest.raises(Refused, match="data parallel"):
        request(profile, checked.hardware.value, plan("h200-8.example").ranks[0], None, None)


def answered(ranks: int, *pools: tuple[int, int, str | None]) -> dict[str, Any]:
    return {
        "ranks": [{"weights_bytes": 10 + rank, "draft_bytes": 1, "caches": []} for rank in range(ranks)],
        "pools": [
            {"available": room, "tokens": tokens, "bytes_per_token": room / tokens if tokens else None, "problem": why}
            for room, tokens, why in pools
        ],
        "source": "estimate",
        "max_model_len": 1024,
        "cache_dtype": "fp8",
        "checkpoint_bytes": 20,
    }


@pytest.fixture
def sparks() -> Checked:
    return check_cluster(CHECKOUT, "two-spark.example", None)


def test_every_gpu_is_told_with_its_node_and_the_range_of_its_pool(sparks: Checked) -> None:
    found = fit(answered(2, (1000, 10, None), (2000, 20, None)), sparks.cluster.value, Measured(None, None))
    names = [node.name for node in sparks.cluster.value.nodes]
    assert [(gpu["node"], gpu["rank"], gpu["weights_bytes"]) for gpu in found.gpus] == [
        (names[0], 0, 10),
        (names[1], 1, 11),
    ]
    # The pool that is promised is the smaller one.
    assert [(gpu["pool_tokens"], gpu["pool_tokens_range"]) for gpu in found.gpus] == [(10, [10, 20])] * 2
    assert found.problem is None


def test_it_does_not_fit_only_when_the_most_is_not_enough(sparks: Checked) -> None:
    some = fit(answered(2, (0, 0, "no room"), (2000, 20, None)), sparks.cluster.value, Measured(None, None))
    assert some.problem is None
    none = fit(answered(2, (0, 0, "no room"), (10, 0, "too little")), sparks.cluster.value, Measured(None, None))
    assert none.problem == "too little"
