"""The faults that `make faults` plays on real vLLM, played on the StandIn."""

import json
import os
from dataclasses import asdict

import pytest

from launch.engines.process import marked
from scripts.faults.plays import CHANGING, SERVING, rows
from scripts.faults.stage import Stage
from tests.standin.world import World


class Standin(Stage):
    """The StandIn's processes have no titles: a rank has its main one and a worker."""

    @property
    def starting(self) -> str:
        # The StandIn serves in a third of a second, in which a busy machine may not get to a rank.
        return "h"

    def pids(self, rank: int, name: str | None = None) -> list[int]:
        return [it.pid for it in marked(self.owner()) if it.rank == rank and it.main is (name is None)]


@pytest.mark.skipif(os.geteuid() != 0, reason="one fault is a full file system, which root mounts")
def test_every_fault_ends_in_a_group_that_answers_or_an_operator_who_is_told(
    request: pytest.FixtureRequest, world: World
) -> None:
    world.brief_trials()
    world.cluster("faults")
    world.profile("h", "hangs-at-start", env={"VLLM_ENGINE_READY_TIMEOUT_S": "300"})
    stage = Standin(world.home, world.home / "configs/clusters/faults.yaml", "c", world.node.parent, world.api)
    found = {row.fault: row for row in rows(stage, print, (*SERVING, *CHANGING))}
    request.node.user_properties += [("fault", json.dumps(asdict(row))) for row in found.values()]
    assert len(found) == len(SERVING) + len(CHANGING)
    lost = [
        row for row in found.values() if row.happened.startswith("`watch` saw it after ") and "(rank " in row.happened
    ]
    assert len(lost) == 5
    assert "(right) hangs: a process is stopped" in found["a worker process is stopped by a signal and hangs"].happened
    for name in ("kill -9 of a rank that starts", "a rank that starts is stopped by a signal"):
        assert "exit 2, the old group is back" in found[name].happened
    assert "the second ends with 6: " in found["two operators at once"].happened
    full = found["the disk is full while the environment is staged"].happened
    assert "exit 2: " in full and "No space left on device; the group that ran answers" in full
    world.done("stop", "faults")
