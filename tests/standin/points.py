"""The points of a launch at which a test strikes the controller, in the order in which it passes them."""

from launch.engines import process
from launch.group import transition
from launch.group.journal import Event
from launch.ledger import launch as ledger
from launch.nodes import environment
from tests.standin.hooks import Point, at_call, at_event

POINTS: dict[str, Point] = {
    "before INTENT": at_event(Event.INTENT, written=False),
    "after INTENT": at_event(Event.INTENT, written=True),
    "while the environment is made": at_call(environment, "build", 1),
    "before STAGED": at_event(Event.STAGED, written=False),
    "after STAGED": at_event(Event.STAGED, written=True),
    "while the old group stops": at_call(process, "_signal", 1, after=True),
    "before STOPPED": at_event(Event.STOPPED, written=False),
    "after STOPPED": at_event(Event.STOPPED, written=True),
    "between the starts of two ranks": at_call(process, "_spawn", 1, after=True),
    "while the new group gets ready": at_call(transition, "wait_until_ready", 1),
    "before STARTED": at_event(Event.STARTED, written=False),
    "after STARTED": at_event(Event.STARTED, written=True),
    "during the trial": at_call(ledger, "judge", 1),
    "before COMMITTED": at_event(Event.COMMITTED, written=False),
    "after COMMITTED": at_event(Event.COMMITTED, written=True),
}
