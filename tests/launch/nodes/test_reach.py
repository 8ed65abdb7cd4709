"""What is made of the words of a node's docker program; they are typed here."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from launch.nodes import reach, ssh
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


def test_an_engine_that_hangs_is_told_and_not_asked_again_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(place: Place, argv: Sequence[str], **options: object) -> "subprocess.CompletedProcess[str]":
        asked.append(argv[1])
        raise ssh.Late(f"node {place.name} did not end `docker …` within {options['seconds']} s")

    monkeypatch.setattr(reach, "run", run)
    monkeypatch.setattr(reach, "_hung", {})
    told = "user@right: the engine of node right did not answer `docker ps` within 15 s — restart docker there"
    for _ in range(2):
        with pytest.raises(Unreachable) as failed:
            reach.docker(RIGHT, "ps")
        assert str(failed.value) == told
    assert asked == ["ps"]
    monkeypatch.setattr(reach, "_AGAIN_SECONDS", 0.0)
    with pytest.raises(Unreachable, match="did not answer `docker image` within 15 s"):
        reach.docker(RIGHT, "image", "inspect", "x")
    assert asked == ["ps", "image"]
