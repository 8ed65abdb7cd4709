"""The commands of the published documents against what is rendered for them, flag for flag.

Every file of tests/cases/render/documents has a document's flags and values as data; `at-least` allows more flags.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launch.plan.group import GroupPlan
from recipe.config.source import load

DOCUMENTS = sorted((Path(__file__).resolve().parents[2] / "cases" / "render" / "documents").glob("*.yaml"))


def parsed(argv: list[str]) -> dict[str, Any]:
    """Flags with their values as a set that has no order: None without a value, JSON as what it says."""
    found: dict[str, Any] = {}
    words = iter(argv)
    flag = ""
    for word in words:
        if word.startswith("--"):
            flag, given, value = word.partition("=")
            assert flag not in found, f"{flag} is there twice"
            found[flag] = value if given else None
        else:
            assert found[flag] is None, f"{flag} has two values"
            found[flag] = json.loads(word) if word.startswith("{") else word
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_the_rendered_command_is_the_documents(path: Path, plan: Callable[[str, str], GroupPlan]) -> None:
    case = load(path).data
    rendered = plan(case["cluster"], case["profile"])
    assert len(rendered.ranks) == len(case["nodes"])
    for rank, own in zip(rendered.ranks, case["nodes"], strict=True):
        lead = len(case["entrypoint"])
        program, model, rest = list(rank.argv[:lead]), rank.argv[lead], list(rank.argv[lead + 1 :])
        assert (program, model) == (case["entrypoint"], case["model"])
        there, wanted = parsed(rest), {**case["flags"], **own}
        if case.get("at-least"):
            there = {flag: value for flag, value in there.items() if flag in wanted}
        assert there == wanted
        assert rank.env.items() >= case["env"].items()
        assert not rank.env.keys() & set(case["without-env"])
        assert rank.container is not None
        assert case["image"] in (None, rank.container.image)
