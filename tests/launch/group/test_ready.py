"""Waiting for a group, on an engine and a probe that do as they are told."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from launch.engines.base import Look
from launch.group import liveness, ready
from launch.group.logs import read
from launch.group.ready import last_line, ready_seconds, wait_until_ready
from launch.group.why import why
from launch.plan.group import GroupPlan
from recipe.errors import HallmarkError, Refused


def plan(seconds: str | None = "5") -> GroupPlan:
    env = {} if seconds is None else {"VLLM_ENGINE_READY_TIMEOUT_S": seconds}
    argv = ("vllm", "serve", "/m")
    ranks = tuple(SimpleNamespace(name=it, rank=rank, env=env, argv=argv) for rank, it in enumerate(("left", "right")))
    return cast(GroupPlan, SimpleNamespace(ranks=ranks))


def wait(
    logs: Path,
    probe: Callable[[float], str | None],
    *,
    dead: Callable[[], int | None],
    seconds: str = "5",
    say: Callable[[str], None] = lambda line: None,
) -> None:
    def look(plan: GroupPlan, group: str) -> list[Look]:
        return [Look(rank.name, rank.rank, alive=rank.rank != dead()) for rank in plan.ranks]

    engine = cast(Any, SimpleNamespace(look=look, look_seconds=0, collect=lambda plan, group, logs: None))
    asked = plan(seconds)
    wait_until_ready(engine, asked, "group", logs, probe, lambda: why(read(asked, logs), (), logs), say)


def test_it_asks_again_until_the_group_answers(tmp_path: Path) -> None:
    answers = iter(["nothing listens", "nothing listens", None])
    wait(tmp_path, lambda seconds: next(answers), dead=lambda: None)
    assert list(answers) == []


def test_a_request_gets_the_time_that_is_left(tmp_path: Path) -> None:
    given: list[float] = []

    def probe(seconds: float) -> str | None:
        given.append(seconds)
        return None if len(given) > 1 else "not yet"

    wait(tmp_path, probe, dead=lambda: None)
    assert 5 >= given[0] > given[1] > 0


def test_a_rank_that_ends_while_a_request_hangs_is_seen_at_once(tmp_path: Path) -> None:
    asked = threading.Event()

    def hang(seconds: float) -> str | None:
        asked.set()
        threading.Event().wait()
        return None

    (tmp_path / "right.log").write_text(
        "INFO starts\n\x1b[31mERROR\x1b[0m 12-01 10:00:01 [x.py:1] OSError: something broke\n"
    )
    with pytest.raises(
        Refused,
        match=r"rank 1 \(right\) ended while it started\n.* of rank 1 \(right\).*:\n    ERROR .*broke\n  \(.*right",
    ):
        wait(tmp_path, hang, dead=lambda: 1 if asked.is_set() else None, seconds="60")


def test_the_cause_is_shown_and_not_the_line_that_points_at_it(tmp_path: Path) -> None:
    text = "ValueError: no such dtype\nRuntimeError: Engine core initialization failed. See root cause above.\n"
    (tmp_path / "left.log").write_text(text)
    with pytest.raises(Refused, match="ValueError: no such dtype"):
        wait(tmp_path, lambda seconds: "no", dead=lambda: 0)


def test_a_usage_error_of_the_program_is_an_error_line(tmp_path: Path) -> None:
    (tmp_path / "left.log").write_text("usage: vllm\nvllm: error: unrecognized arguments: --x\nbye\n")
    with pytest.raises(Refused, match="unrecognized arguments"):
        wait(tmp_path, lambda seconds: "no", dead=lambda: 0)


def test_an_error_of_the_probe_is_not_swallowed(tmp_path: Path) -> None:
    def broken(seconds: float) -> str | None:
        raise HallmarkError("the secret env:X is not set")

    with pytest.raises(HallmarkError, match="env:X"):
        wait(tmp_path, broken, dead=lambda: None)


def test_the_time_is_the_plans_own_or_vllms_default() -> None:
    assert (ready_seconds(plan("7.5")), ready_seconds(plan(None))) == (7.5, 600)


def test_the_last_line_of_a_log_is_one_that_says_something(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert last_line(log) == "nothing in the log yet"
    log.write_text("first\n\x1b[1mlast\x1b[0m  \n\n   \n")
    assert last_line(log) == "last"


def test_it_tells_what_it_waits_for_and_how_far_each_rank_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E3: a progress line at least every 30 s, with the last line of the log."""
    assert ready._TELL_EVERY <= 30
    monkeypatch.setattr(ready, "_TELL_EVERY", 0.1)
    (tmp_path / "left.log").write_text("INFO 12-01 01:30:39 [x.py:1] world_size=2 rank=0 distributed_init_method=tcp\n")
    said: list[str] = []
    answers = iter(["no"] * 10)
    wait(tmp_path, lambda seconds: next(answers, None), dead=lambda: None, say=said.append)
    assert "waiting (left joins the store; right silent): INFO 12-01" in said[0]


def test_a_rank_that_stays_behind_is_named_once_with_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D8: while it goes on, not only when its time is over."""
    monkeypatch.setattr(ready, "_TELL_EVERY", 0.1)
    monkeypatch.setattr(liveness, "LAG_SECONDS", 0.05)
    (tmp_path / "left.log").write_text("INFO 12-01 01:30:39 [x.py:1] world_size=2 rank=0 distributed_init_method=tcp\n")
    (tmp_path / "right.log").write_text("INFO 12-01 01:30:39 [x.py:1] starts\n")
    said: list[str] = []
    answers = iter(["no"] * 20)
    wait(tmp_path, lambda seconds: next(answers, None), dead=lambda: None, say=said.append)
    [told] = [line for line in said if "stays at" in line]
    assert "rank 1 (right) stays at 'started' for " in told
    assert "has not come to the others yet — the last line of its log says where it is" in told


def test_a_group_that_takes_too_long_is_told_by_the_stages_of_its_ranks(tmp_path: Path) -> None:
    """D8 and E3: which phase, and who never joined."""
    (tmp_path / "left.log").write_text("INFO 12-01 01:30:39 [x.py:1] world_size=2 rank=0 distributed_init_method=tcp\n")
    says = r"(?s)within 0.3 s: no\n  left: joins the store\n  right: never joined: it wrote nothing\n.*READY_TIMEOUT_S"
    with pytest.raises(Refused, match=says):
        wait(tmp_path, lambda seconds: "no", dead=lambda: None, seconds="0.3")


def test_a_node_that_is_cut_off_is_told_of_while_it_does_not_give_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for the progress line, they held up the looks, and then the error."""
    monkeypatch.setattr(ready, "_TELL_EVERY", 0.05)
    monkeypatch.setattr(liveness, "CUT_SECONDS", 0.3)
    told = threading.Event()

    def look(plan: GroupPlan, group: str) -> list[Look]:
        return [Look("left", 0, alive=True), Look("right", 1, alive=False, reached=False, why="no answer")]

    def collect(plan: GroupPlan, group: str, logs: Path) -> set[str]:
        assert told.wait(10), "the looks waited for the logs"
        return {"left"}

    def say(line: str) -> None:
        if "rank 1 (right) was cut off while it started: no answer" in line:
            told.set()

    engine = cast(Any, SimpleNamespace(look=look, look_seconds=0, collect=collect))
    with pytest.raises(Refused, match="was cut off while it started"):
        wait_until_ready(engine, plan(), "group", tmp_path, lambda seconds: "no", lambda: "", say)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Refused("docker says no")], ids=type)
def test_logs_that_cannot_be_kept_neither_end_a_start_nor_hide_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(ready, "_TELL_EVERY", 0.05)
    said: list[str] = []
    gone: list[int] = []

    def look(plan: GroupPlan, group: str) -> list[Look]:
        return [Look(it.name, it.rank, alive=it.rank not in gone) for it in plan.ranks]

    def collect(plan: GroupPlan, group: str, logs: Path) -> set[str]:
        raise error

    def probe(seconds: float) -> str | None:
        gone.extend([1] if len(said) > 1 else [])
        return "no"

    engine = cast(Any, SimpleNamespace(look=look, look_seconds=0, collect=collect))
    with pytest.raises(Refused, match=r"rank 1 \(right\) ended while it started"):
        wait_until_ready(engine, plan(), "group", tmp_path, probe, lambda: "", said.append)
    assert [line for line in said if "warning" in line] == [f"  warning: the logs cannot be brought here: {error}"]
