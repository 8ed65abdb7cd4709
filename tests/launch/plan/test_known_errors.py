"""Known errors: each is found in its recorded line, none in a healthy log."""

from pathlib import Path

import pytest

from launch.plan.known_errors import explain
from launch.plan.logs import RankLog
from recipe.config.known_errors import KnownError, load_known_errors
from recipe.errors import ConfigError

ROOT = Path(__file__).parents[3]
HEALTHY = sorted((ROOT / "tests" / "cases" / "gates" / "logs").glob("*.log"))
KNOWN = load_known_errors(ROOT)
PREFIX = "\x1b[0;36m(Worker_TP1 pid=77)\x1b[0;0m ERROR 12-01 01:40:12 [multiproc_executor.py:1004] "


@pytest.mark.parametrize("error", KNOWN, ids=lambda error: error.id)
def test_an_error_is_found_in_its_recorded_lines_also_with_colours_and_prefixes(error: KnownError) -> None:
    for line in error.seen:
        for text in (line, f"INFO one line\n{PREFIX}{line}\r\nINFO another"):
            found = explain([RankLog("a", 0, text)], KNOWN)
            assert error.id in [one.error.id for one in found]
            assert found[0].error is error, f"{found[0].error.id} comes before it"


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_no_known_error_is_found_in_a_healthy_log(path: Path) -> None:
    assert explain([RankLog("a", 0, path.read_text(encoding="utf-8"))], KNOWN) == []


def test_the_cause_comes_before_its_consequence_and_names_the_nodes_that_wrote_it() -> None:
    gone = "Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor."
    cause = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    logs = [RankLog("spark-a", 0, gone), RankLog("spark-b", 1, f"{cause}\n{gone}")]
    first, second = explain(logs, KNOWN)
    assert (first.error.id, first.nodes) == ("out-of-memory", ("spark-b",))
    assert (second.error.id, second.nodes) == ("worker-gone", ("spark-a", "spark-b"))
    assert str(first) == f"spark-b: {cause}: {first.error.means} — {first.error.remedy}"


def test_a_pattern_that_misses_its_own_line_is_told_with_the_files_place(tmp_path: Path) -> None:
    folder = tmp_path / "configs" / "gates"
    folder.mkdir(parents=True)
    (folder / "known-errors.yaml").write_text(
        "kind: known-errors\nerrors:\n  - {id: a, pattern: b, means: c, remedy: d, source: e, seen: [f]}\n"
    )
    with pytest.raises(ConfigError, match=r"known-errors.yaml:3: .*the pattern does not match 'f'"):
        load_known_errors(tmp_path)
