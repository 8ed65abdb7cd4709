"""The first error of a group and the lines that tell it, on the cases of tests/cases/start and on real logs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.group.why import why
from launch.plan.cause import MOST_LINES, first
from launch.plan.logs import RankLog
from recipe.config.known_errors import load_known_errors

ROOT = Path(__file__).parents[3]
CASES = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((ROOT / "tests/cases/start").glob("*.yaml"))}
HEALTHY = sorted((ROOT / "tests/cases/gates/logs").glob("healthy-*.log"))


def logs(case: dict[str, Any]) -> list[RankLog]:
    return [RankLog(node, rank, text) for rank, (node, text) in enumerate(case["logs"].items())]


@pytest.mark.parametrize("name", CASES)
def test_the_first_error_is_shown_with_its_rank_and_ten_lines(name: str) -> None:
    case = CASES[name]
    found = first(logs(case))
    assert found is not None
    assert found.rank == case["rank"]
    assert 0 < len(found.lines) <= MOST_LINES
    told = why(logs(case), load_known_errors(ROOT), Path("/logs"))
    assert all(text in told for text in case["says"]), told
    assert not any(text in told for text in case["never"]), told
    assert f"of rank {case['rank']} ({list(case['logs'])[case['rank']]})" in told
    if case.get("remedy"):
        [error] = [error for error in load_known_errors(ROOT) if error.id == "out-of-memory"]
        assert f"{error.means} — {error.remedy}" in told


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_a_healthy_log_has_no_error_and_its_last_line_is_shown(path: Path) -> None:
    log = RankLog("a", 0, path.read_text(encoding="utf-8"))
    assert first([log]) is None
    assert "a wrote last: " in why([log], (), Path("/logs"))


def test_the_engines_own_times_count_where_there_are_some() -> None:
    """A traceback carries no time of its own, whatever stood before it."""
    late = RankLog("a", 0, "INFO starts\nValueError: late\n", times=("2026-12-01T10:00:00Z", "2026-12-01T10:09:00Z"))
    early = RankLog("b", 1, "INFO starts\nValueError: early\n", times=("2026-12-01T10:00:01Z", "2026-12-01T10:08:00Z"))
    found = first([late, early])
    assert found is not None
    assert (found.rank, found.at) == (1, "2026-12-01T10:08:00Z")


def test_an_error_at_the_end_of_a_log_is_as_late_as_the_log() -> None:
    late = RankLog("a", 0, "INFO 12-01 10:00:00 [x.py:1] starts\nValueError: late\n", ended="12-01T10:09:00")
    early = RankLog("b", 1, "ERROR 12-01 10:08:00 [x.py:1] ValueError: early\n", ended="12-01T10:09:00")
    found = first([late, early])
    assert found is not None
    assert found.told.endswith("ValueError: early")
