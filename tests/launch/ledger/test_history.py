"""The history as it is computed from the journal's entries."""

from typing import Any

from launch.group.journal import Entry, Event
from launch.ledger.history import History, history


def fold(*events: tuple[Any, ...]) -> History:
    """`(event, revision, operation, data)`; data may be left out."""
    entries = []
    for seq, (event, revision, operation, *data) in enumerate(events, start=1):
        entries.append(Entry(seq, "", "2026-12-01T00:00:00.000+00:00", operation, event, revision, *(data or [{}])))
    return history(entries)


def intent(
    revision: int, operation: int, old: int | None = None, digest: str = "d", plan: str = "p"
) -> tuple[Any, ...]:
    data = {
        "kind": "launch",
        "profile": "a",
        "profile_sha256": "f",
        "hardware": "here",
        "plan": plan,
        "subject": {"kind": "env", "reference": "/envs/x", "patchset": "s", "digest": digest},
        "restores": None,
        "old": old,
        "who": "me@here",
        "why": None,
    }
    return Event.INTENT, revision, operation, data


STOP = {"kind": "stop", "who": "me@here"}


def test_nothing_happened_yet() -> None:
    past = fold()
    assert (past.revisions, past.running, past.unfinished, past.next) == ({}, None, None, 1)


def test_a_launch_is_unfinished_until_it_is_committed() -> None:
    steps: list[tuple[Any, ...]] = [intent(1, 1)]
    for event in (Event.STAGED, Event.STOPPED, Event.STARTED):
        steps.append((event, 1, 1))
        past = fold(*steps)
        assert (past.running, past.unfinished, past.revisions[1].state) == (None, 1, event.lower())
    past = fold(*steps, (Event.COMMITTED, 1, 1))
    assert (past.running, past.unfinished, past.next) == (1, None, 2)


def test_a_restore_brings_the_old_one_back_also_behind_a_commit() -> None:
    first = (intent(1, 1), (Event.COMMITTED, 1, 1), intent(2, 3, old=1))
    for between in ((), ((Event.COMMITTED, 2, 3),)):
        past = fold(*first, *between, (Event.RESTORED, 2, 3))
        assert (past.running, past.unfinished, past.revisions[2].state) == (1, None, "restored")


def test_what_needs_an_operator_is_unfinished() -> None:
    past = fold(intent(1, 1), (Event.COMMITTED, 1, 1), intent(2, 3, old=1), (Event.NEEDS_OPERATOR, 2, 3))
    assert (past.running, past.unfinished) == (1, 2)


def test_a_stop_counts_when_it_is_done() -> None:
    begun = (intent(1, 1), (Event.COMMITTED, 1, 1), (Event.INTENT, 1, 3, STOP))
    assert fold(*begun).running == 1
    past = fold(*begun, (Event.STOPPED, 1, 3))
    assert (past.running, past.unfinished, past.revisions[1].state) == (None, None, "committed")


def test_a_stop_ends_a_launch_that_was_killed() -> None:
    past = fold(intent(1, 1), (Event.STOPPED, 1, 1), (Event.INTENT, 1, 3, STOP), (Event.STOPPED, 1, 3))
    assert (past.running, past.unfinished) == (None, None)


def test_a_certificate_is_about_a_digest_with_its_plan_before_and_after() -> None:
    past = fold(
        intent(1, 1),
        intent(2, 2),
        intent(3, 3, plan="other arguments"),
        intent(4, 4, digest="other code"),
        (Event.CERTIFIED, 2, 5, {"certificate": "c.json", "digest": "d", "sha256": "e"}),
        intent(5, 6),
    )
    assert {number: revision.certificate for number, revision in past.revisions.items()} == {
        1: "c.json",
        2: "c.json",
        3: None,
        4: None,
        5: "c.json",
    }
