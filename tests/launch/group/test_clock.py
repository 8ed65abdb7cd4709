"""The clock: what was the ranks' time and what was ours."""

from types import SimpleNamespace

import pytest

from launch.group import clock
from launch.group.clock import Clock


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that stands still; its last element is now."""
    times = [100.0]
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: times[-1]))
    return times


def test_all_time_that_is_not_the_groups_is_the_tools(now: list[float]) -> None:
    said: list[str] = []
    found = Clock(said.append, _began=100.0)
    with found.step("plan"):
        now.append(101.0)
    with found.step("start", "group"):
        now.append(111.0)
    now.append(111.5)
    assert said == ["plan", "start"]
    assert [(step.name, step.of, step.seconds) for step in found.steps] == [
        ("plan", "tool", 1.0),
        ("start", "group", 10),
    ]
    assert (found.group_seconds(), found.tool_seconds()) == (10.0, 1.5)


def test_a_step_that_fails_counts_too(now: list[float]) -> None:
    found = Clock(lambda line: None)
    with pytest.raises(KeyError), found.step("stop", "group"):
        now.append(104.0)
        raise KeyError
    assert found.group_seconds() == 4.0
