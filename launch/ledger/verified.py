"""Whether an image was checked when it was built: one with a check that could not run is not to be certified."""

from launch.nodes import image
from launch.plan.group import GroupPlan
from recipe.errors import HallmarkError
from recipe.image import said


def unverified(plan: GroupPlan) -> list[str]:
    """The build's checks that did not pass, by the image's own labels.

    None for an environment, for an image that Hallmark did not build, and where this engine does not have it.
    """
    if plan.subject.kind != "image" or plan.subject.digest is None:
        return []
    try:
        found = image.resolve(f"sha256:{plan.subject.digest}", None, None, "")
    except HallmarkError:
        return []
    return [f"check {reason}" for reason in said.unverified(found.labels)]
