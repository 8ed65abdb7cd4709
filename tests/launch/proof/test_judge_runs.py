"""Noisy figures are judged by the intervals of their runs, and dirty runs do not count."""

from typing import Any

import pytest

from launch.proof.judge import judge
from launch.proof.judge_runs import throughput_is_clear
from launch.proof.verdict import Judgement, Verdict
from recipe.config.gate import ThroughputGate, parse

GATE = parse(
    {
        "kind": "throughput",
        "summary": "s",
        "workloads": [
            {"name": "count", "prompt": "a", "min-tok-s": 30.0},
            {"name": "sql", "prompt": "b", "min-tok-s": 30.0},
        ],
        "fewest-runs": 3,
        "most-runs": 6,
    }
)


def run(count: float, sql: float, foreign: int = 0) -> dict[str, Any]:
    """One run: tokens per second of both prompts, 512 tokens each."""
    rates = {"count": count, "sql": sql}
    return {
        name: {"own_tokens": 512, "served_tokens": 512 + foreign, "seconds": 512 / rate, "before": None, "after": None}
        for name, rate in rates.items()
    }


def judged(runs: list[dict[str, Any]]) -> Judgement:
    return judge(GATE, {"answers": [], "runs": runs}, None)


def clear(runs: list[dict[str, Any]]) -> bool:
    assert isinstance(GATE, ThroughputGate)
    return throughput_is_clear(GATE, runs)


def test_steady_runs_far_above_the_bar_pass_after_the_fewest() -> None:
    runs = [run(49.7, 58.5), run(50.1, 58.9), run(49.5, 58.2)]
    assert not clear(runs[:2])
    assert clear(runs)
    found = judged(runs)
    assert found.verdict is Verdict.PASS
    assert found.value == pytest.approx(49.77, abs=0.01)
    assert found.summary == "count 49.8, sql 58.5 tok/s over 3 runs, each above its bar"


def test_one_slow_prompt_fails_although_the_other_is_fast() -> None:
    found = judged([run(60.0, 17.0), run(61.0, 17.2), run(60.5, 16.9)])
    assert found.verdict is Verdict.FAIL
    assert "sql: 17.0 tok/s, the bar is 30.0" in found.summary
    assert "count:" not in found.summary


def test_a_figure_whose_interval_holds_the_bar_asks_for_more_runs_and_is_inconclusive_at_the_end() -> None:
    runs = [run(28.0, 60.0), run(34.0, 60.0), run(29.0, 60.0), run(33.0, 60.0), run(28.5, 60.0)]
    assert not clear(runs)
    found = judged([*runs, run(33.0, 60.0)])
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "count: 30.9 tok/s, the bar is 30.0, and the interval 30.92 (" in found.summary
    assert found.summary.endswith("run it on a quiet machine, or raise most-runs")


def test_runs_in_which_other_requests_landed_do_not_count() -> None:
    good = [run(50.0, 60.0), run(50.1, 60.1), run(49.9, 59.9)]
    # They slowed ours down, and would be a miss.
    dirty = [run(9.0, 9.0, foreign=700)] * 2
    assert not clear([*dirty, *good[:2]])
    assert judged([*dirty, *good]).verdict is Verdict.PASS
    only = judged(dirty * 3)
    assert only.verdict is Verdict.INCONCLUSIVE
    assert "other requests ran too" in only.summary
