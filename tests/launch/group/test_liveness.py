"""Which rank is lost while a group starts, from looks at it; time is given."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from launch.engines.base import Look
from launch.engines.kernel import ASK_SECONDS, Unanswered
from launch.group.liveness import CUT_SECONDS, HELD_SECONDS, IDLE_SECONDS, UNANSWERED_SECONDS, Liveness
from launch.plan.group import GroupPlan
from launch.plan.logs import RankLog
from launch.plan.stages import stages

WITHIN = 10
CASES = Path(__file__).parents[2] / "cases" / "hangs"


def liveness(model: str = "/m") -> Liveness:
    argv = ("vllm", "serve", model, "--master-port", "29777")
    ranks = [
        SimpleNamespace(name=it, rank=rank, argv=argv, env={"VLLM_HOST_IP": f"10.0.0.{rank + 1}"})
        for rank, it in enumerate("ab")
    ]
    return Liveness(cast(GroupPlan, SimpleNamespace(ranks=ranks)), 0.0)


def look(rank: int, spent: float = 0.0, **how: object) -> Look:
    return Look("ab"[rank], rank, **{"alive": True, "spent": spent, **how})  # type: ignore[arg-type]


def watched(seconds: int, *looks: "tuple[float, Look]", model: str = "/m") -> tuple[float, str | None]:
    """Feed looks once a second, each rank spending so much a second; the moment and the verdict."""
    found = liveness(model)
    for now in range(seconds + 1):
        found.feed([Look(**{**vars(it), "spent": share * now}) for share, it in looks], float(now))
        if lost := found.lost(float(now)):
            return now, lost
    return seconds, None


def test_every_limit_is_within_ten_seconds_and_a_look() -> None:
    # The kernel sends again what was not confirmed for a second; it is asked now and then.
    unanswered = 1 + UNANSWERED_SECONDS + 2 * ASK_SECONDS
    assert max(CUT_SECONDS, HELD_SECONDS, IDLE_SECONDS) + 1 < WITHIN
    assert unanswered <= WITHIN


def test_a_group_that_works_is_not_lost() -> None:
    assert watched(100, (1.0, look(0)), (0.5, look(1)))[1] is None


def test_a_rank_that_waits_for_a_busy_one_is_not_lost() -> None:
    assert watched(100, (1.0, look(0)), (0.0, look(1)))[1] is None


def test_a_group_that_waits_for_a_disk_is_not_lost() -> None:
    assert watched(100, (0.0, look(0)), (0.0, look(1, disk=True)))[1] is None


def test_a_group_that_fetches_its_model_by_name_is_not_lost() -> None:
    assert watched(100, (0.0, look(0)), (0.0, look(1)), model="org/model")[1] is None


def test_a_group_of_which_nothing_moves_hangs() -> None:
    now, lost = watched(100, (0.002, look(0)), (0.0, look(1)))
    assert now < WITHIN
    assert lost is not None and "the group hangs" in lost


@pytest.mark.parametrize("held", ["process 12 is stopped", "its container is paused"])
def test_a_held_rank_hangs_although_the_others_work(held: str) -> None:
    now, lost = watched(100, (1.0, look(0)), (0.0, look(1, held=held)))
    assert (now < WITHIN, lost) == (True, f"rank 1 (b) hangs: {held}")


def test_a_rank_that_ended_is_told_at_once() -> None:
    assert watched(100, (1.0, look(0)), (0.0, look(1, alive=False))) == (0, "rank 1 (b) ended while it started")


def test_a_rank_is_cut_off_when_it_is_not_reached_for_a_while() -> None:
    found = liveness()
    gone = Look("b", 1, alive=False, reached=False, why="node b: no answer")
    for now in range(20):
        # Reached once more at 6, when the connection is back for a moment.
        found.feed([look(0, now), look(1, now) if now in (0, 6) else gone], float(now))
        lost = found.lost(float(now))
        assert (lost is None) == (now <= 6 + CUT_SECONDS)
    assert lost == "rank 1 (b) was cut off while it started: node b: no answer"


def test_a_rank_that_is_not_reached_is_no_part_of_a_group_that_hangs() -> None:
    """Whether it moves nobody knows, and a person is to look at the node instead."""
    found = liveness()
    gone = Look("b", 1, alive=False, reached=False, why="node b: no answer")
    lost = None
    for now in range(WITHIN + 2):
        found.feed([look(0), look(1) if now < 2 else gone], float(now))
        lost = lost or found.lost(float(now))
    assert lost == "rank 1 (b) was cut off while it started: node b: no answer"


def test_a_look_that_never_ends_is_a_node_that_is_cut_off() -> None:
    found = liveness()
    told = [found.lost(float(now)) for now in range(WITHIN)]
    assert told[-1] == "rank 0 (a) was cut off while it started: its node does not answer"
    assert told[int(CUT_SECONDS)] is None


def test_a_controller_that_had_no_time_to_look_blames_nobody() -> None:
    found = liveness()
    found.feed([look(0), look(1)], 0.0)
    assert found.lost(0.0) is None
    assert found.lost(60.0) is None


HANGS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(CASES.glob("*.yaml"))}


@pytest.mark.parametrize("name", HANGS)
def test_a_rank_that_hangs_is_found_by_evidence_and_one_that_is_slow_never(name: str) -> None:
    """Looks once a second, logs every five seconds, for 90 seconds; a rank is busy unless the case says otherwise."""
    case = HANGS[name]
    found = liveness()
    begins = max([case.get("from", 0), *(log.get("at", 0) for log in case.get("logs", {}).values())])
    lost = None
    for now in range(91):
        found.feed([played(case, rank, now) for rank in (0, 1)], float(now))
        if now % 5 == 0:
            found.read(stages([written(case, rank, now) for rank in (0, 1)]), float(now))
        if lost := found.lost(float(now)):
            assert now - begins <= case["within"]
            break
    if case["lost"] is None:
        assert lost is None
    else:
        assert lost is not None and case["lost"] in lost
    assert [line for line in found.remarks() if line in case.get("remarks", ())] == case.get("remarks", [])
    assert all(any(text in line for line in found.stays(90.0)) for text in case.get("stays", ())), found.stays(90.0)


def played(case: dict[str, Any], rank: int, now: int) -> Look:
    name = "ab"[rank]
    if name in case.get("gone", ()) and now >= case["from"]:
        return look(rank, alive=False, reached=False, why="node b: no answer")
    cut = case.get("from", 0) <= now <= case.get("until", 90)
    ends = [it.rpartition(":") for it in case.get("unanswered", {}).get(name, ()) if cut]
    asked = tuple(Unanswered(address, int(port), not case.get("foreign", False)) for address, _, port in ends)
    spent = 0.0 if name in case.get("idle", ()) else 0.9 * now
    return look(rank, spent, unanswered=asked if now % ASK_SECONDS == 0 else None)


def written(case: dict[str, Any], rank: int, now: int) -> RankLog:
    log = case.get("logs", {}).get("ab"[rank], {"text": ""})
    # A node that does not give its log from then on.
    given = now < log.get("until", 91)
    return RankLog("ab"[rank], rank, log["text"] if now >= log.get("at", 0) else "", given)
