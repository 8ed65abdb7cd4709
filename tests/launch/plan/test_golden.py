"""What `hallmark render` says of the shipped clusters, as files of tests/cases/render.

HALLMARK_REFRESH=1 writes the files again; read the difference before you keep it.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.cli import shell
from launch.plan.group import GroupPlan

CLUSTERS = [
    "demo",
    "h200-8.example",
    "kubernetes.example",
    "local-two.example",
    "slurm.example",
    "two-spark-stage-d.example",
    "two-spark.example",
]
HOME = "/home/user"
GOLDEN = Path(__file__).resolve().parents[2] / "cases" / "render"


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_rendered_plan_is_the_golden_one(cluster: str, plan: Callable[[str], GroupPlan]) -> None:
    rendered = plan(cluster)
    texts = {
        f"{cluster}.json": json.dumps(rendered.to_json(), indent=1, ensure_ascii=False) + "\n",
        f"{cluster}.txt": shell.text(rendered, HOME) + "\n",
    }
    if os.environ.get("HALLMARK_REFRESH"):
        for name, text in texts.items():
            (GOLDEN / name).write_text(text, encoding="utf-8")
    assert texts == {name: (GOLDEN / name).read_text(encoding="utf-8") for name in texts}


def test_every_golden_file_belongs_to_a_cluster() -> None:
    assert {path.stem for path in GOLDEN.iterdir() if path.is_file()} == set(CLUSTERS)
