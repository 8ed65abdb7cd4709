"""Serve flags become arguments; every file of tests/cases/render/flags is one mapping and what it becomes."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from recipe.config.flags import flags
from recipe.config.serve import normalised
from recipe.config.source import load

CASES = sorted((Path(__file__).resolve().parents[2] / "cases" / "render" / "flags").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_mapping_becomes_exactly_these_arguments(path: Path) -> None:
    case = load(path).data
    assert flags(normalised(case["serve"])) == case["argv"]


def test_a_value_comes_through_a_shell_as_it_was_written() -> None:
    value = {"note": 'it\'s $5 "q" `x` {a,b} \\ ü\n', "list": [True, None, 0, 0.5]}
    command = shlex.join([sys.executable, "-c", "import sys; print(sys.argv[2])", *flags({"hf-overrides": value})])
    printed = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == value
