"""The points of a launch at which a test strikes the controller, in the order in which it passes them."""

from launch.engines import process
from launch.engines.containers import DockerEngine
from launch.group import transition
from launch.group.journal import Event
from launch.ledger import launch as ledger
from launch.nodes import environment
from launch.nodes.image import StagedImage
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

_OF_CONTAINERS: dict[str, tuple[str, Point]] = {
    "while the environment is made": ("while the image is staged", at_call(StagedImage, "stage", 1)),
    "while the old group stops": ("while the old group stops", at_call(DockerEngine, "stop", 1)),
    "between the starts of two ranks": (
        "between the starts of two ranks",
        at_call(DockerEngine, "_start", 1, after=True),
    ),
}
# The same points of a launch that runs its ranks in containers.
IN_CONTAINERS: dict[str, Point] = dict(_OF_CONTAINERS.get(name, (name, point)) for name, point in POINTS.items())
