"""Compose files on two real engines: the containers are those that the docker engine would run."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launch.engines.containers import differences
from launch.ledger.subject import named
from launch.plan.group import plan_group
from recipe.config.check import check_cluster
from scripts.bases import archive
from scripts.engines.packages import program
from tests.conftest import possible
from tests.standin.pair import PLAIN, Pair
from tests.standin.world import until

pytestmark = pytest.mark.docker
# What Docker itself reports of a container's settings, as far as a plan decides it.
SETTINGS = ("NetworkMode", "RestartPolicy", "Init", "ShmSize", "CapAdd", "Ulimits", "Devices", "DeviceRequests")


@pytest.fixture
def files(pair: Pair, images: list[archive.Base], tmp_path: Path) -> Iterator[list[tuple[str, Path]]]:
    """The rendered file of each node beside its engine, head first; nothing of it runs after the test."""
    archive.load(images[0], pair.nodes.engines[1].client, pair.nodes.engines[1].host)
    done = pair.world.run("render", "pair", "--engine", "compose", "--image", PLAIN, "--out", str(tmp_path / "files"))
    assert done.exit == 0, done.err
    found = [
        (engine.host, tmp_path / "files" / f"{rank}-{name}.compose.yaml")
        for rank, (engine, name) in enumerate(zip(pair.nodes.engines, ("left", "right"), strict=True))
    ]
    yield found
    pair.clear()


def up(host: str, file: Path) -> None:
    """What the head of the file says."""
    with possible():
        compose = program("docker-compose", "docker-compose")
    [folders] = [line[4:] for line in file.read_text().splitlines() if line.startswith("#   mkdir")]
    subprocess.run(["sh", "-c", folders], check=True)
    words = [compose, "--file", str(file), "--project-name", file.name.partition(".")[0], "up", "--detach"]
    subprocess.run(words, check=True, env={**os.environ, "DOCKER_HOST": host}, capture_output=True)


def test_compose_starts_what_the_docker_engine_would_start(pair: Pair, files: list[tuple[str, Path]]) -> None:
    for host, file in reversed(files):
        up(host, file)
    until(pair.world.answers)
    by_compose = [settings(pair, number) for number in (0, 1)]
    checked = check_cluster(pair.world.home, "pair")
    plan = plan_group(checked.profile, checked.cluster, named(checked.profile, checked.cluster, PLAIN))
    for rank, found in zip(plan.ranks, by_compose, strict=True):
        assert rank.container is not None
        known = replace(rank, container=replace(rank.container, image=found["Image"]))
        assert differences(known, found) == []
        planned = {("bind", it.source, it.target, not it.read_only) for it in rank.container.mounts}
        assert mounts(found) == planned
    pair.clear()

    pair.world.done("launch", "pair", "--image", PLAIN)
    for number, found in enumerate(by_compose):
        ours = settings(pair, number)
        for key in SETTINGS:
            assert (found["HostConfig"][key] or None) == (ours["HostConfig"][key] or None), key
        # What is mounted from where is the plan's, as above; a launch looks at the image before it names its caches.
        assert {(kind, target, rights) for kind, _, target, rights in mounts(found)} == {
            (kind, target, rights) for kind, _, target, rights in mounts(ours)
        }
        assert found["Config"]["StopTimeout"] == ours["Config"]["StopTimeout"] == 30


def settings(pair: Pair, number: int) -> dict[str, Any]:
    engine = pair.nodes.engines[number]
    [name] = engine.docker("ps", "--quiet", "--filter", "label=dev.hallmark.cluster=pair").stdout.split()
    [found] = json.loads(engine.docker("inspect", name).stdout)
    return dict(found)


def mounts(found: dict[str, Any]) -> set[tuple[object, ...]]:
    return {(it["Type"], it["Source"], it["Destination"], it["RW"]) for it in found["Mounts"]}
