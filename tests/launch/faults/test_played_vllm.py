"""The faults of `make faults` that CI plays with real vLLM, in an order that needs few starts of the group."""

import os
import platform
from collections.abc import Iterator

import pytest

from launch.engines.process import marked
from launch.engines.shared import mapped
from scripts.faults import plays
from scripts.faults.plays import Play, rows
from scripts.faults.stage import Stage, stage
from tests.standin.world import free_ports

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="vLLM's CPU build is for Linux on x86-64"
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="one fault is a full file system, which root mounts"),
]


@pytest.fixture(scope="module")
def group() -> Iterator[Stage]:
    with stage(*free_ports(2)) as made:
        yield made


def played(group: Stage, play: Play) -> str:
    [row] = rows(group, print, [play])
    return row.happened


def test_a_worker_that_is_held_shows_in_the_status_until_it_goes_on(group: Stage) -> None:
    assert played(group, plays.held) == (
        "`status` ends with 2: rank 1 (node-b) hangs: a process is stopped; once it goes on, the group answers"
    )
    # What `fit` predicts without starting anything is what this group of two ranks logged.
    status, predicted = group.asked("fit", str(group.cluster))
    assert (status, predicted["source"]) == (0, "log")
    assert [gpu["pool_tokens"] for gpu in predicted["gpus"]] == [predicted["measured"]["pool_tokens"]] * 2


def test_a_full_disk_while_the_next_environment_is_staged_leaves_the_group_alone(group: Stage) -> None:
    assert played(group, plays.full_disk) == (
        "exit 2: cannot make the environment: No space left on device; the group that ran answers"
    )


def test_the_second_of_two_operators_is_told_who_is_first(group: Stage) -> None:
    happened = played(group, plays.two_operators)
    assert happened.startswith("the second ends with 6: the cluster is being changed by ")
    assert happened.endswith("; the group that ran answers")


def test_a_watch_starts_the_group_again_after_a_worker_was_killed(group: Stage) -> None:
    happened = played(group, plays.worker_restarted)
    assert happened.startswith("`watch` saw it after ") and happened.endswith("; the group was started again")
    logs = (group.folder / "node" / "clusters" / "faults" / "logs").rglob("node-b*.log")
    # Stock vLLM leaves with status 0 and without a word.
    assert any("exiting with status 1" in log.read_text() for log in logs)


def test_a_rank_that_is_killed_while_it_starts_brings_the_old_group_back(group: Stage) -> None:
    happened = played(group, plays.start_killed)
    assert ": rank 1 (node-b) ended while it started; exit 2, the old group is back" in happened


def test_a_launch_that_is_killed_is_finished_by_the_same_command(group: Stage) -> None:
    assert played(group, plays.stopping_killed) == (
        "the same command, run again, brought the old group back and then the new one up"
    )


def test_a_killed_head_shows_in_the_status_and_stop_leaves_nothing_of_the_group(group: Stage) -> None:
    memory = mapped(process.pid for process in marked(group.owner()))
    assert played(group, plays.head_ends).startswith("`status` ends with 2: rank 0 (node-a) does not run; `logs` ")
    group.done("stop", str(group.cluster))
    assert marked(group.owner()) == []
    assert not [path for path, _ in memory if path.exists()]
