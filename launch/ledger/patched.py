"""The states of the patches in what a group runs, as the applier recorded them."""

import json
from pathlib import Path

from launch.nodes import image
from launch.plan.group import GroupPlan
from recipe.applier.manifest import NAME
from recipe.errors import HallmarkError
from recipe.image import said


def states(plan: GroupPlan) -> dict[str, str] | None:
    """State by patch id, from PATCHES.json of an environment or the label of an image that this machine's engine has;
    None where neither is there, and for an image that Hallmark did not build.

    Errors: Mismatch when the label cannot be read.
    """
    subject = plan.subject
    if subject.kind == "env":
        found = next(Path(subject.reference).glob(f"*.dist-info/{NAME}"), None)
        manifest = json.loads(found.read_bytes()) if found else None
    else:
        try:
            labels = image.resolve(subject.image, None, None, "").labels
        except HallmarkError:
            labels = {}
        manifest = said.manifest(labels)
    return {id: str(patch["state"]) for id, patch in manifest["patches"].items()} if manifest else None
