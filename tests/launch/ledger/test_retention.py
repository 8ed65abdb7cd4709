"""What a cluster may still return to, by its history alone."""

from typing import Any

from launch.group.journal import Event
from launch.ledger.retention import kept_revisions
from tests.launch.ledger.test_history import STOP, fold, intent


def certified(revision: int, operation: int) -> tuple[Any, ...]:
    return Event.CERTIFIED, revision, operation, {"digest": "x", "certificate": "x.json", "sha256": "y"}


def committed(revision: int, operation: int, old: int | None, digest: str, plan: str) -> list[tuple[Any, ...]]:
    return [intent(revision, operation, old=old, digest=digest, plan=plan), (Event.COMMITTED, revision, operation)]


def test_nothing_is_kept_for_a_cluster_without_a_history() -> None:
    assert kept_revisions(fold()) == set()


def test_what_is_certified_stays_however_long_ago_it_ran() -> None:
    """B7: the target of a rollback is not cleaned away."""
    past = fold(
        *committed(1, 1, None, "aa", "p1"),
        certified(1, 3),
        *committed(2, 4, 1, "bb", "p2"),
        *committed(3, 6, 2, "cc", "p3"),
        *committed(4, 8, 3, "dd", "p4"),
    )
    assert kept_revisions(past) == {1, 3, 4}


def test_of_a_group_that_came_back_only_the_newest_containers_stay() -> None:
    past = fold(
        *committed(1, 1, None, "aa", "p1"),
        certified(1, 3),
        *committed(2, 4, 1, "bb", "p2"),
        certified(2, 6),
        *committed(3, 7, 2, "aa", "p1"),
        *committed(4, 9, 3, "bb", "p2"),
        *committed(5, 11, 4, "cc", "p3"),
    )
    assert kept_revisions(past) == {3, 4, 5}


def test_what_a_command_began_and_what_it_would_restore_stay() -> None:
    past = fold(*committed(1, 1, None, "aa", "p1"), intent(2, 3, old=1, digest="bb", plan="p2"))
    assert kept_revisions(past) == {1, 2}


def test_a_stopped_cluster_can_be_started_again() -> None:
    past = fold(
        *committed(1, 1, None, "aa", "p1"),
        intent(2, 3, old=1, digest="bb", plan="p2"),
        (Event.RESTORED, 2, 3),
        (Event.INTENT, 1, 5, STOP),
        (Event.STOPPED, 1, 5),
    )
    assert past.running is None
    assert kept_revisions(past) == {1}
