"""Charts are drawn from a result, and the same result gives the same bytes."""

from pathlib import Path

import pytest

from launch.proof.bench import charts
from launch.proof.bench.figures import PromptFigures, Run
from launch.proof.bench.result import Result
from launch.proof.metrics import SpecCounts
from recipe.config.bench import load_preset

ROOT = Path(__file__).parents[4]
SPEC = SpecCounts(10, 50, 30, (10, 8, 6, 4, 2))


def result(spec: SpecCounts | None) -> Result:
    prompts = [PromptFigures("count", [Run(False, 100, 4.0, 25.0)], spec)]
    published = load_preset(ROOT, "recipe").published
    return Result("recipe", "http://127.0.0.1:8000", "m", "0.33.0", prompts, [], None, spec, None, None, published)


def test_throughput_and_acceptance_are_drawn_as_png_and_svg(tmp_path: Path) -> None:
    names = [path.name for path in charts.write(result(SPEC), tmp_path)]
    assert names == [
        "recipe-throughput.png", "recipe-throughput.svg", "recipe-acceptance.png", "recipe-acceptance.svg"
    ]  # fmt: skip
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)


def test_a_server_that_does_not_speculate_has_no_chart_of_it(tmp_path: Path) -> None:
    assert [path.name for path in charts.write(result(None), tmp_path)] == [
        "recipe-throughput.png",
        "recipe-throughput.svg",
    ]


@pytest.mark.parametrize("name", ["recipe-throughput.svg", "recipe-acceptance.svg"])
def test_two_drawings_of_one_result_are_the_same_bytes(name: str, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        charts.write(result(SPEC), tmp_path / folder)
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
