"""What `adopt` refuses, by what engines say; each case is a file in tests/cases/adopt/refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.ledger import adopt
from launch.plan.adopted import Found
from launch.plan.place import Place
from recipe.config.paths import CHECKOUT
from tests.standin.world import World

CASES = sorted((CHECKOUT / "tests" / "cases" / "adopt" / "refused").glob("*.yaml"))


def found(place: Place, number: int, one: dict[str, Any]) -> Found:
    config = {"Env": [], "Entrypoint": None, "Cmd": one["argv"], "Image": "vllm/vllm-openai:latest"}
    box = {"Id": f"{place.name}-{number}", "Name": f"/{one['name']}", "Image": one.get("image", "sha256:aa")}
    return Found(place, {**box, "Config": config, "HostConfig": {}, "Mounts": []}, {"Config": {}})


@pytest.fixture
def docker(world: World) -> World:
    nodes = [
        {"name": "left", "address": "local", "fabric": "127.0.0.1"},
        {"name": "right", "address": "local", "fabric": "127.0.0.2"},
    ]
    world.cluster(engine="docker", nodes=nodes, paths={"state": str(world.node), "models": str(world.models)})
    return world


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_group_that_is_none_is_refused_with_every_reason_and_nothing_is_recorded(
    path: Path, docker: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = yaml.safe_load(path.read_text())

    def foreign(place: Place) -> list[Found]:
        return [found(place, number, one) for number, one in enumerate(case[place.name])]

    monkeypatch.setattr(adopt, "foreign", foreign)
    monkeypatch.setattr(adopt, "WARM_SECONDS", 0.2)
    result = docker.run("adopt", "pair")
    assert result.exit == 2
    for line in case["says"]:
        assert line in result.err
    assert "hidden" not in result.err
    assert not docker.journal().entries


def test_only_containers_can_be_adopted(world: World) -> None:
    result = world.run("adopt", "pair")
    assert result.exit == 1
    assert "the process engine has no containers to adopt" in result.err
