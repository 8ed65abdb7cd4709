"""Pinning what a profile's names stand for, and building from nothing else; docker and registry are stand-ins."""

import errno
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from click import Command
from click.testing import CliRunner, Result

from launch.cli.context import Context
from launch.cli.image import image
from launch.cli.pin import pin
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit, HallmarkError
from recipe.image import pins
from tests.recipe.image.docker import StandInDocker
from tests.recipe.image.standin_registry import StandInRegistry

LAYERS = ["sha256:" + "1" * 64]
COMMIT = "c" * 40


class Project:
    """A folder with the profile `mine`, whose base is in a stand-in registry, and a stand-in for docker."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, at: StandInRegistry) -> None:
        self.home, self.docker, self.base = folder, StandInDocker(folder / "bin"), f"{at.address}/h:1"
        (folder / "configs/profiles").mkdir(parents=True)
        monkeypatch.setenv("HALLMARK_DOCKER", str(self.docker.program))
        monkeypatch.setenv("HALLMARK_CACHE", str(folder / "cache"))
        monkeypatch.setenv("HF_ENDPOINT", f"http://{at.address}")
        for name in ("DOCKER_HOST", "HF_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        at.commits["/api/models/owner/model/revision/main"] = COMMIT
        self.profile(self.base)
        self.docker.answer("version", out="20.10.24\n")

    def profile(self, base: str) -> None:
        text = (CHECKOUT / "configs/profiles/cpu-dev.yaml").read_text()
        text = text.replace("base: localhost/vllm-cpu:0.32.0", f"base: {base}")
        text = text.replace("model: tiny-cycle", "model: owner/model")
        (self.home / "configs/profiles/mine.yaml").write_text(text)

    @property
    def lock(self) -> Path:
        return self.home / "configs/pins.lock"

    def run(self, command: Command, *arguments: str) -> Result:
        return CliRunner().invoke(command, ["mine", *arguments], obj=Context(self.home, True))

    def refused(self, command: Command, *arguments: str) -> HallmarkError:
        error = self.run(command, *arguments).exception
        assert isinstance(error, HallmarkError), repr(error)
        return error


@pytest.fixture
def at() -> Iterator[StandInRegistry]:
    with StandInRegistry() as registry:
        yield registry


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: StandInRegistry) -> Project:
    return Project(tmp_path, monkeypatch, at)


def test_list_image_configuration_and_commit_are_written_down_once(project: Project, at: StandInRegistry) -> None:
    images = {it: at.has_from_now(it, it, LAYERS, {}, it) for it in ("arm64", "amd64")}
    listed = at.has_list("1", images)
    assert json.loads(project.run(pin).stdout)["changed"] is True
    assert yaml.safe_load(project.lock.read_text()) == {
        "profiles": {
            "mine": {
                "base": {
                    "reference": project.base,
                    "list": listed,
                    "platform": images["amd64"],
                    "config": at.configuration(images["amd64"]),
                },
                "model": {"repository": "owner/model", "revision": COMMIT},
            }
        }
    }
    assert json.loads(project.run(pin).stdout)["changed"] is False


def test_b5_a_build_names_the_pinned_base_by_its_digest_wherever_the_tag_went(
    project: Project, at: StandInRegistry
) -> None:
    digest = at.has_from_now("1", "one", LAYERS, {})
    project.run(pin)
    at.has_from_now("1", "two", LAYERS, {})
    assert f"FROM {at.address}/h@{digest} AS base" in json.loads(project.run(image, "--dry-run").stdout)["dockerfile"]


def test_b5_an_engine_that_has_something_else_under_that_name_is_refused(project: Project, at: StandInRegistry) -> None:
    at.has_from_now("1", "one", LAYERS, {})
    project.run(pin)
    other = {"Id": "sha256:" + "0" * 64, "Architecture": "amd64", "Created": "2026-01-01T00:00:00Z"}
    project.docker.answer("image inspect", out=json.dumps([{**other, "RootFS": {"Layers": LAYERS}}]))
    error = project.refused(image)
    assert error.exit == Exit.NOT_DONE
    assert "is sha256:0000" in str(error) and "pin this one: hallmark pin mine" in str(error)


def test_a_profile_that_names_another_base_since_is_refused_with_the_line_of_the_pin(
    project: Project, at: StandInRegistry
) -> None:
    at.has_from_now("1", "one", LAYERS, {})
    project.run(pin)
    project.profile(f"{at.address}/h:2")
    line = next(n for n, text in enumerate(project.lock.read_text().splitlines(), 1) if "reference:" in text)
    error = str(project.refused(image, "--dry-run"))
    assert f"pins.lock:{line}: mine was pinned with the base {project.base}" in error
    assert "— hallmark pin mine" in error


def test_an_image_that_no_registry_has_is_pinned_as_the_engine_has_it(project: Project) -> None:
    project.profile("localhost/made-here:1")
    here = {"Id": "sha256:" + "d" * 64, "Architecture": "amd64", "Created": "2026-01-01T00:00:00Z"}
    project.docker.answer("image inspect", out=json.dumps([{**here, "RootFS": {"Layers": LAYERS}}]))
    project.run(pin)
    base = yaml.safe_load(project.lock.read_text())["profiles"]["mine"]["base"]
    assert base == {"reference": "localhost/made-here:1", "config": "sha256:" + "d" * 64}


def test_pins_that_are_written_at_the_same_time_all_stay(project: Project) -> None:
    pin = pins.Pin(base=pins.BasePin(reference="a:1", list=None, platform=None, config="sha256:" + "d" * 64))
    names = [f"profile-{number}" for number in range(16)]
    with ThreadPoolExecutor() as pool:
        assert all(pool.map(lambda name: pins.write(project.home, name, pin), names))
    assert sorted(yaml.safe_load(project.lock.read_text())["profiles"]) == sorted(names)
    assert [path.name for path in project.lock.parent.iterdir() if path.is_file()] == ["pins.lock"]


def test_a_pin_that_a_full_disk_stops_leaves_the_others(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    pin = pins.Pin(base=pins.BasePin(reference="a:1", list=None, platform=None, config="sha256:" + "d" * 64))
    pins.write(project.home, "one", pin)
    whole = project.lock.read_bytes()

    def half(path: Path, text: str, **_: str) -> None:
        path.write_bytes(text.encode()[:20])
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="No space left"):
        pins.write(project.home, "two", pin)
    assert project.lock.read_bytes() == whole


def test_a_model_that_the_hub_does_not_have_is_not_pinned(project: Project, at: StandInRegistry) -> None:
    at.has_from_now("1", "one", LAYERS, {})
    at.commits.clear()
    error = project.refused(pin)
    assert (error.exit, "answers 404 for owner/model" in str(error)) == (Exit.UNREACHABLE, True)
    assert not project.lock.exists()


def test_a_hub_that_answers_with_no_commit_is_not_believed(project: Project, at: StandInRegistry) -> None:
    at.has_from_now("1", "one", LAYERS, {})
    for repository in at.commits:
        at.commits[repository] = "../main"
    assert project.refused(pin).exit == Exit.MISMATCH
    assert not project.lock.exists()


def test_a_token_that_no_header_can_carry_is_not_shown(
    project: Project, at: StandInRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.has_from_now("1", "one", LAYERS, {})
    monkeypatch.setenv("HF_TOKEN", "hf_SECRET\nx")
    error = project.refused(pin)
    assert (error.exit, "SECRET" in str(error)) == (Exit.USAGE, False)


def test_extras_that_are_not_the_pinned_ones_are_refused_with_the_line_of_the_pin(
    project: Project, at: StandInRegistry
) -> None:
    at.has_from_now("1", "one", LAYERS, {})
    project.run(pin)
    path = project.home / "configs/profiles/mine.yaml"
    path.write_text(path.read_text() + "extras: [bench]\n")
    error = str(project.refused(image, "--dry-run"))
    assert "mine was pinned with the extras none, the profile names bench — hallmark pin mine" in error
    document = yaml.safe_load(project.lock.read_text())
    wheel = {"name": "one", "version": "1", "file": "one-1-py3-none-any.whl", "sha256": "e" * 64}
    document["profiles"]["mine"]["extras"] = {"names": ["audio"], "packages": [wheel]}
    project.lock.write_text(yaml.safe_dump(document))
    line = next(n for n, text in enumerate(project.lock.read_text().splitlines(), 1) if "names:" in text)
    error = str(project.refused(image, "--dry-run"))
    assert f"pins.lock:{line}: mine was pinned with the extras audio, the profile names bench" in error
    path.write_text(path.read_text().replace("extras: [bench]", "extras: [audio]"))
    shown = json.loads(project.run(image, "--dry-run").stdout)
    assert "FROM base AS extras" in shown["dockerfile"]
    assert json.loads(shown["labels"]["dev.hallmark.extras"]) == {"one": f"1 sha256:{'e' * 64}"}
