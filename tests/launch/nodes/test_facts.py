"""Facts about nodes, taken from this one."""

import platform
from pathlib import Path
from typing import cast

import pytest

from launch.nodes import facts
from launch.plan.container import Container, Mount
from launch.plan.group import GroupPlan, RankPlan
from launch.plan.place import Place
from recipe.errors import Refused


def rank(number: int, folder: Path) -> RankPlan:
    mounts = (Mount(str(folder), "/models/m", read_only=True),)
    box = Container("n", "i", mounts, (), (), {}, "16g", None, {})
    # Another engine on the same machine is another place.
    engine = f"unix:///run/{number}.sock"
    return RankPlan(f"n{number}", number, "local", engine, ("vllm", "serve", "/models/m", "--x"), {}, {}, box, {})


def group(*folders: Path) -> GroupPlan:
    class Plan:
        ranks = tuple(rank(number, folder) for number, folder in enumerate(folders))

    return cast(GroupPlan, Plan())


def model(folder: Path, weights: bytes = b"1") -> Path:
    (folder / "sub dir").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub dir" / "weights").write_bytes(weights)
    return folder


def test_a_machine_is_described_as_it_is() -> None:
    found = facts.machine(Place("here", "local"))
    wanted = {"machine": platform.machine(), "kernel": platform.release(), "system": platform.system()}
    assert isinstance(found.pop("gpus"), list)
    assert found == wanted


def test_a_model_is_the_same_wherever_it_lies_and_another_one_by_any_byte(tmp_path: Path) -> None:
    one, same, other = (model(tmp_path / name, data) for name, data in (("a", b"1"), ("b", b"1"), ("c", b"2")))
    assert facts.model_digest(group(one, same)) == facts.model_digest(group(one))
    assert facts.model_digest(group(one)) != facts.model_digest(group(other))


def test_a_node_with_another_model_is_named(tmp_path: Path) -> None:
    one, other = model(tmp_path / "a"), model(tmp_path / "b", b"2")
    with pytest.raises(Refused, match="the model on n1 is not the one on n0"):
        facts.model_digest(group(one, other))


def test_a_model_that_cannot_be_read_is_refused_with_its_node(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="node n0: the model cannot be read"):
        facts.model_digest(group(tmp_path / "none"))
