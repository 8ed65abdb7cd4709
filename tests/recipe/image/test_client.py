"""Which docker program builds, and what is said where none can."""

import os
from pathlib import Path

import pytest

from recipe.errors import HallmarkError, Unreachable
from recipe.image import client, engine, inspect
from recipe.image.client import Client, find, plain
from tests.recipe.image.docker import StandInDocker


def on_path(monkeypatch: pytest.MonkeyPatch, *programs: StandInDocker) -> None:
    monkeypatch.delenv("HALLMARK_DOCKER", raising=False)
    monkeypatch.setenv("PATH", os.pathsep.join(str(it.folder) for it in programs))


def test_a_client_with_buildx_builds_through_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = StandInDocker(tmp_path / "new", "28.2.2")
    new.answer("buildx version", out="github.com/docker/buildx v0.24.0 d0e5e86\n")
    on_path(monkeypatch, new)
    assert find() == Client(str(new.program), buildx=True, context="default")
    new.answer("context inspect", out="rootless\n")
    assert find() == Client(str(new.program), buildx=True, context="rootless")


def test_a_later_client_on_path_is_taken_when_the_first_cannot_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = StandInDocker(tmp_path / "new", "28.2.2"), StandInDocker(tmp_path / "old", "20.10.24+dfsg1")
    on_path(monkeypatch, new, old)
    assert find() == Client(str(old.program), buildx=False)


def test_b1_without_buildkit_it_says_what_to_install_or_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = StandInDocker(tmp_path / "new", "28.2.2")
    on_path(monkeypatch, new)
    with pytest.raises(HallmarkError) as raised:
        find()
    assert str(raised.value) == (
        f"cannot build with BuildKit: {new.program} (28.2.2) has no buildx — install docker-buildx-plugin"
        " (or docker-buildx), or name a client from 18.09 to 22 with HALLMARK_DOCKER"
    )


def test_the_named_client_is_taken_whatever_is_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, named = StandInDocker(tmp_path / "first"), StandInDocker(tmp_path / "named")
    on_path(monkeypatch, first)
    monkeypatch.setenv("HALLMARK_DOCKER", str(named.program))
    assert find().program == str(named.program)


def test_a_named_client_that_cannot_build_is_not_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, named = StandInDocker(tmp_path / "first"), StandInDocker(tmp_path / "named", "28.2.2")
    on_path(monkeypatch, first)
    monkeypatch.setenv("HALLMARK_DOCKER", str(named.program))
    with pytest.raises(HallmarkError, match=r"HALLMARK_DOCKER: cannot build with BuildKit: .*named/docker \(28.2.2\)"):
        find()


def test_no_docker_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALLMARK_DOCKER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HallmarkError, match="there is no program docker on PATH — install docker, or name it with"):
        find()


def test_a_file_that_cannot_be_run_here_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, working = StandInDocker(tmp_path / "broken"), StandInDocker(tmp_path / "working")
    broken.program.write_bytes(b"\x7fELF of another machine")
    on_path(monkeypatch, broken, working)
    assert find().program == str(working.program)
    on_path(monkeypatch, broken)
    with pytest.raises(HallmarkError, match=r"docker \(no docker\) has no buildx"):
        find()


def test_another_tool_that_calls_itself_docker_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = StandInDocker(tmp_path / "other")
    other.answers = []
    other.answer("--version", out="podman version 4.3.1\n")
    on_path(monkeypatch, other)
    with pytest.raises(HallmarkError, match=r"docker \(no docker\) has no buildx"):
        find()


def test_what_only_asks_an_engine_takes_the_named_client_too_and_needs_none_that_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, named = StandInDocker(tmp_path / "first", "28.2.2"), StandInDocker(tmp_path / "named", "28.2.2")
    on_path(monkeypatch, first)
    assert plain() == Client("docker", buildx=False)
    monkeypatch.setenv("HALLMARK_DOCKER", str(named.program))
    assert plain() == Client(str(named.program), buildx=False)
    monkeypatch.setenv("HALLMARK_DOCKER", str(tmp_path / "none"))
    with pytest.raises(HallmarkError, match="HALLMARK_DOCKER: there is no program"):
        plain()


def test_a_plugin_that_hangs_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\n[ "$1" != buildx ] || exec sleep 60\necho Docker version 20.10.24, build 1\n')
    docker.chmod(0o755)
    monkeypatch.setenv("HALLMARK_DOCKER", str(docker))
    monkeypatch.setattr(client, "_SECONDS", 1.0)
    assert find() == Client(str(docker), buildx=False)


def test_an_engine_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = tmp_path / "docker"
    hung.write_text("#!/bin/sh\nexec sleep 60\n")
    hung.chmod(0o755)
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/other.sock")
    monkeypatch.setattr(engine, "_SECONDS", 0.2)
    told = r"DOCKER_HOST=unix:///run/other.sock: the engine did not answer `docker image` within 0.2 s — restart docker"
    with pytest.raises(Unreachable, match=told):
        inspect.image(Client(str(hung), buildx=False), "debian:1")
