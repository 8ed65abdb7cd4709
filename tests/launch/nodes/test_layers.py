"""A node's own docker pulls for as long as somebody waits for it; docker is a stand-in."""

import os
import subprocess
from pathlib import Path

import pytest

from launch.nodes import layers
from launch.plan.place import Place
from recipe.errors import Refused
from tests.recipe.image.docker import StandInDocker
from tests.standin.world import until

HERE = Place("here", "local")


def test_a_pull_that_nobody_waits_for_any_more_ends(tmp_path: Path) -> None:
    """When a connection is lost, the node's sshd closes what it held open for the command."""
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho $$\nexec sleep 60\n")
    docker.chmod(0o755)
    words = ["sh", "-c", layers._PULL, "sh", str(docker), "pull", "debian:1"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pull:
        assert pull.stdin is not None and pull.stdout is not None
        pid = int(pull.stdout.readline())
        os.kill(pid, 0)
        pull.stdin.close()
        until(lambda: not Path(f"/proc/{pid}").exists())
        assert pull.wait() != 0


def test_a_pull_ends_as_docker_does_and_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = StandInDocker(tmp_path / "bin")
    docker.answer("pull good:1", out="a: Pulling fs layer\n")
    docker.answer("pull bad:1", 1, err="manifest unknown\n")
    monkeypatch.setenv("HALLMARK_DOCKER", str(docker.program))
    layers.pull(HERE, "good:1", lambda done, total: None)
    with pytest.raises(Refused, match="docker pull failed: manifest unknown"):
        layers.pull(HERE, "bad:1", lambda done, total: None)
