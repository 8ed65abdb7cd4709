"""Compose files, read by Compose itself (Debian's package docker-compose)."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from launch.engines import compose
from launch.plan.group import RankPlan
from scripts.engines.packages import program
from tests.conftest import possible
from tests.readers.compose import of_service
from tests.readers.groups import TRAPPED, loaded, plan
from tests.readers.seen import HOME, SECRETS, planned

WHOLE = {"gpus": True, "ipc-lock": True, "infiniband": True, "memlock": True, "shm-size": "8g"}


@pytest.fixture
def rank(tmp_path: Path) -> RankPlan:
    """The worker of a group with every setting and every word that could be taken for something else."""
    profile, cluster = TRAPPED
    env = {**profile["env"], "HF_TOKEN": "env:MY_TOKEN"}
    checked = loaded({**profile, "env": env, "container": WHOLE}, cluster, "compose", tmp_path)
    return plan(checked, tmp_path).ranks[1]


def config(rank: RankPlan, folder: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    with possible():
        compose_program = program("docker-compose", "docker-compose")
    file = folder / compose.name(rank)
    file.write_text(compose.text(rank))
    given = {"PATH": os.environ["PATH"], "HOME": HOME, **env}
    words = [compose_program, "--file", str(file), "config"]
    return subprocess.run(words, env=given, capture_output=True, text=True, check=False)


def test_compose_reads_the_arguments_variables_and_mounts_of_the_plan(rank: RankPlan, tmp_path: Path) -> None:
    done = config(rank, tmp_path, **SECRETS)
    assert done.returncode == 0, done.stderr
    # What it prints is a Compose file again.
    [service] = yaml.safe_load(done.stdout.replace("$$", "$"))["services"].values()
    service["environment"] = {name: str(value) for name, value in service["environment"].items()}
    assert of_service(service) == planned(rank)


def test_compose_reads_the_settings_of_the_container(rank: RankPlan, tmp_path: Path) -> None:
    [service] = yaml.safe_load(config(rank, tmp_path, **SECRETS).stdout)["services"].values()
    box = rank.container
    assert box is not None
    assert (service["image"], service["container_name"]) == (box.image, box.name)
    assert (service["network_mode"], service["restart"], service["init"]) == ("host", "no", True)
    assert service["labels"] == box.labels
    assert (service["cap_add"], service["ulimits"]) == (["IPC_LOCK"], {"memlock": -1})
    assert service["devices"] == ["/dev/infiniband:/dev/infiniband"]
    assert service["shm_size"] in ("8g", 8 * 2**30)
    assert service["stop_grace_period"] == "30s"
    [gpus] = service["deploy"]["resources"]["reservations"]["devices"]
    assert gpus == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}


def test_compose_does_not_start_without_a_secret(rank: RankPlan, tmp_path: Path) -> None:
    done = config(rank, tmp_path)
    assert done.returncode != 0
    assert "it is not set in this shell" in done.stderr
    assert SECRETS["MY_TOKEN"] not in compose.text(rank)
