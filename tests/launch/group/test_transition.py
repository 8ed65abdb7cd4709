"""What a transition tells when a node is not reached; what it does is played in tests/launch/ledger and …/faults."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from launch.engines.base import Look
from launch.group.clock import Clock
from launch.group.journal import Event
from launch.group.transition import Generation, Ways, restore, switch
from recipe.errors import NeedsOperator, Unreachable

GONE = Unreachable("node right: no answer")


class World:
    """Two nodes with an old group, of which the second is not reached."""

    def __init__(self) -> None:
        self.events: list[tuple[Event, dict[str, Any]]] = []
        self.stopped: list[str] = []

    def look(self, plan: object, mark: str) -> list[Look]:
        return [
            Look("left", 0, alive=mark == "r1" and not self.stopped),
            Look("right", 1, alive=False, reached=False, why=str(GONE)),
        ]

    def stop(self, plan: object, mark: str, patience: float) -> None:
        self.stopped.append(mark)
        raise GONE

    def record(self, event: Event, **data: Any) -> None:
        self.events.append((event, data))

    def ways(self) -> Ways:
        def never(*words: Any) -> Any:
            raise AssertionError("nothing is asked of the group")

        return Ways(cast(Any, self), self.record, never, never, Clock(lambda line: None))


def generation(number: int) -> Generation:
    return Generation(number, cast(Any, SimpleNamespace()), f"r{number}", Path())


def test_nothing_is_stopped_when_a_node_is_gone_once_all_is_staged() -> None:
    world = World()
    with pytest.raises(Unreachable, match="revision 2 was not taken: node right: no answer — nothing was touched"):
        switch(world.ways(), generation(1), generation(2), stage=lambda: None, trial=list)
    assert world.stopped == []
    assert [event for event, _ in world.events] == [Event.STAGED, Event.RESTORED]


def test_a_person_who_must_act_is_told_of_each_node_once() -> None:
    world = World()
    with pytest.raises(NeedsOperator) as told:
        restore(world.ways(), generation(1), generation(2), str(GONE))
    assert str(told.value).startswith(
        "revision 2 failed and revision 1 could not be brought back: node right: no answer;"
        " left: no rank runs; right: is not reached — mend"
    )
    assert world.events == [
        (Event.NEEDS_OPERATOR, {"reason": str(GONE), "nodes": ["left: no rank runs", "right: is not reached"]})
    ]
