"""The pauses between restarts, and their limit."""

from datetime import UTC, datetime, timedelta

from launch.group.backoff import Backoff

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def ago(*seconds: float) -> list[datetime]:
    return [NOW - timedelta(seconds=it) for it in seconds]


def test_the_first_restart_is_at_once_and_each_later_one_after_twice_as_long() -> None:
    backoff = Backoff(limit=9, first=10, most=60)
    assert backoff.wait([], NOW) == 0
    assert [backoff.wait(ago(*[0.0] * count), NOW) for count in (1, 2, 3, 4, 5)] == [10, 20, 40, 60, 60]


def test_time_that_passed_already_counts() -> None:
    assert Backoff(first=10).wait(ago(4), NOW) == 6
    assert Backoff(first=10).wait(ago(40), NOW) == 0


def test_the_limit_counts_only_what_was_lately() -> None:
    backoff = Backoff(limit=2, within=100)
    assert backoff.wait(ago(90, 50), NOW) is None
    assert backoff.wait(ago(101, 50), NOW) == 0
