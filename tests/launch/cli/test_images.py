"""What `images list` and `show` say about images whose labels somebody else wrote; docker is a stand-in."""

import base64
import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from launch.cli.context import Context
from launch.cli.images import images
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit, Mismatch
from tests.recipe.image.docker import BUILT, StandInDocker


def packed(text: bytes) -> str:
    return base64.b64encode(zlib.compress(text)).decode()


WRONG = {
    "no-json": {"checks": "pass"},
    "a-list": {"checks": "[1]"},
    "deep": {"checks": "[" * 100_000},
    "no-base64": {"manifest": "%%%"},
    "no-patches": {"manifest": packed(b'{"patches": [1]}')},
    "no-state": {"manifest": packed(b'{"patches": {"a": {}}}')},
    "cut-off": {"bom": packed(b'{"components": []}')[:12]},
    "no-components": {"bom": packed(b"[]")},
    "of-gigabytes": {"bom": packed(b" " * (1 << 25) + b'{"components": []}')},
}


def has(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    version: str = "20.10.24",
    created: str | None = "2026-01-01T00:00:00Z",
    **labels: str,
) -> None:
    docker = StandInDocker(folder / "bin", version)
    monkeypatch.setenv("HALLMARK_DOCKER", str(docker.program))
    document = {
        "Id": BUILT,
        "Architecture": "amd64",
        **({"Created": created} if created else {}),
        "Config": {"Labels": {f"dev.hallmark.{key}": value for key, value in {"patchset": "p", **labels}.items()}},
        "RootFS": {"Layers": []},
    }
    docker.answer("image ls", out=f"theirs:1 {BUILT}\n")
    docker.answer("image inspect", out=json.dumps([document]))


def run(*words: str, json: bool = False) -> Any:
    return CliRunner().invoke(images, words, obj=Context(CHECKOUT, json))


@pytest.mark.parametrize("labels", WRONG.values(), ids=WRONG)
def test_a_label_that_no_build_writes_is_named_and_hides_no_other_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: dict[str, str]
) -> None:
    has(tmp_path, monkeypatch, **labels)
    error = run("show", "theirs:1").exception
    assert isinstance(error, Mismatch) and error.exit == Exit.MISMATCH, repr(error)
    assert str(error).startswith(f"theirs:1: its label dev.hallmark.{next(iter(labels))} is not what a build writes")
    listed = run("list", json=True)
    assert [it["image"] for it in json.loads(listed.stdout)["images"]] == ["theirs:1"]
    # Nobody may take it for one whose checks all passed.
    assert bool(json.loads(listed.stdout)["images"][0]["unverified"]) == ("checks" in labels)


@pytest.mark.parametrize("words", [("show", "theirs:1"), ("list",)])
def test_a_terminal_only_shows_what_labels_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    has(tmp_path, monkeypatch, profile="a\x1b[2Jb\r\n")
    shown = run(*words).stdout
    assert r"a\x1b[2Jb\r\n" in shown and "\x1b" not in shown


@pytest.mark.parametrize("words", [("show", "theirs:1"), ("list",)])
def test_an_image_that_does_not_say_when_it_was_made_is_shown_by_any_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    has(tmp_path, monkeypatch, version="27.1.0", created=None)
    result = run(*words, json=True)
    assert (result.exception, "theirs:1" in result.stdout) == (None, True)


def test_prune_asks_the_client_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, other = StandInDocker(tmp_path / "named"), StandInDocker(tmp_path / "other")
    for start, out in (("version", "20.10.24"), ("info", "ID here /var/lib/docker"), ("image ls", ""), ("ps", "")):
        named.answer(start, out=f"{out}\n")
    monkeypatch.setenv("PATH", str(other.folder), prepend=os.pathsep)
    monkeypatch.setenv("HALLMARK_DOCKER", str(named.program))
    monkeypatch.setenv("HALLMARK_STATE", str(tmp_path / "state"))
    (tmp_path / "state" / "clusters" / "one").mkdir(parents=True)
    done = CliRunner().invoke(images, ["prune"], obj=Context(tmp_path, True))
    assert done.exit_code == 0, repr(done.exception)
    assert (len(named.calls()), (other.folder / "calls").exists()) == (4, False)
