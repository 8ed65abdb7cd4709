"""Recorded nodes, and changes of them: what look.sh would have said, as data files of tests/cases/nodes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launch.nodes.node import NodeFacts
from launch.nodes.parse import parse

CASES = Path(__file__).resolve().parents[2] / "cases"


def text(name: str) -> str:
    return (CASES / "nodes" / f"{name}.txt").read_text()


def changed(name: str, replace: Mapping[str, str], facts: Mapping[str, Any]) -> NodeFacts:
    """The recorded node with some of its words replaced, then with some facts set."""
    told = text(name)
    for old, new in replace.items():
        assert old in told, f"{old!r} is not in {name}.txt"
        told = told.replace(old, new)
    return NodeFacts.model_validate({**parse(told, skew=0.0, doubt=0.1).model_dump(), **facts})
