"""What is made of the words of a node's docker program; they are typed here."""

import subprocess
from pathlib import Path

import pytest

from launch.nodes import reach
from launch.plan.place import Place
from recipe.errors import HallmarkError, Refused, Unreachable
from tests.recipe.image.docker import StandInDocker

RIGHT = Place("right", "user@right")


@pytest.mark.parametrize(
    ("status", "told", "kind", "says"),
    [
        (
            1,
            "failed to register layer: write /srv/noise: no space left on device\n",
            Refused,
            "node right: the engine's disk is full: failed to register layer: write /srv/noise: no space left on device"
            " — `docker system df` shows what fills it; `docker builder prune` frees caches",
        ),
        (
            1,
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
            Unreachable,
            "node right: no engine answers at unix:///var/run/docker.sock — start it, or correct the docker-host of"
            " that node",
        ),
        (
            127,
            "sh: 1: docker: not found\n",
            Unreachable,
            "node right: there is no program docker — install docker there",
        ),
    ],
    ids=["disk-full", "no-engine", "no-program"],
)
def test_a_docker_command_that_fails_is_said_with_its_node(
    monkeypatch: pytest.MonkeyPatch, status: int, told: str, kind: type[HallmarkError], says: str
) -> None:
    done = subprocess.CompletedProcess[str]([], status, "", told)
    monkeypatch.setattr(reach, "run", lambda *words, **named: done)
    with pytest.raises(kind) as failed:
        reach.docker(RIGHT, "pull", "--quiet", "127.0.0.1:5000/hallmark@sha256:1")
    assert str(failed.value) == says


def test_the_client_that_is_named_here_is_that_of_this_machine_and_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = StandInDocker(tmp_path / "bin")
    monkeypatch.setenv("HALLMARK_DOCKER", str(docker.program))
    here = Place("here", "local", "unix:///run/other.sock")
    assert reach.command(here, "ps") == (str(docker.program), "--host", "unix:///run/other.sock", "ps")
    assert reach.command(RIGHT, "ps") == ("docker", "ps")
