"""What is said when a build fails, and what is done with the image when it does not; with a stand-in for docker."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from click.testing import CliRunner, Result

from launch.cli.context import Context
from launch.cli.image import image
from recipe.catalogue.compile import compile_profile
from recipe.config.load import load_profile
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit, HallmarkError
from recipe.image import bom, context, given, leaks
from recipe.image.build import failure
from recipe.image.engine import Done
from recipe.image.plan import Build
from tests.recipe.image.docker import BUILT, CHECKED, StandInDocker, saved, tar
from tests.recipe.image.standin_registry import StandInRegistry

CASES = sorted((CHECKOUT / "tests/cases/image").glob("*.yaml"))
BASE = "localhost/base:1"
BASE_LAYER, PATCH_LAYER = "sha256:" + "1" * 64, "sha256:" + "2" * 64


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_failed_build_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    case = yaml.safe_load(path.read_text())
    build = Build("p", "hallmark:p", BASE, "linux/arm64", {}, "", b"", 0)
    error = failure(Done(1, tuple(case["log"].splitlines())), build)
    assert [str(problem) for problem in error.problems] == case["says"]
    assert int(error.exit) == case["exit"]


class Machine:
    """The profile cpu-dev, a stand-in for docker that has the base and builds well, and the command."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.docker = StandInDocker(folder / "bin")
        monkeypatch.setenv("HALLMARK_DOCKER", str(self.docker.program))
        monkeypatch.setenv("HALLMARK_CACHE", str(folder / "cache"))
        monkeypatch.setenv("HALLMARK_STATE", str(folder / "state"))
        monkeypatch.delenv("DOCKER_HOST", raising=False)
        self.docker.saves(saved(tar({"etc/hosts": b"127.0.0.1 localhost"})))
        self.tag, self.labels = self.dry_run()

    def dry_run(self) -> tuple[str, dict[str, str]]:
        document = json.loads(self.run("--dry-run", json=True).stdout)
        said = '{"extensions": "skipped: no reason", "patches": "pass", "support": "pass"}'
        patchset = compile_profile(load_profile(CHECKOUT, "cpu-dev"))
        manifest, packages = CHECKED["patches.json"], CHECKED["packages.json"]
        labels = {
            **document["labels"],
            "dev.hallmark.base": "sha256:" + "b" * 64,
            "dev.hallmark.checks": said,
            "dev.hallmark.manifest": bom.packed(json.dumps(manifest, sort_keys=True)),
            "dev.hallmark.bom": bom.packed(
                bom.document(document["labels"]["org.opencontainers.image.title"], packages, patchset, manifest)
            ),
        }
        return document["image"], labels

    def has(self, reference: str, digest: str = BUILT, **other: Any) -> None:
        """The engine has this image, by default the one that is to be built."""
        document = {
            "Id": digest,
            "RepoDigests": [],
            "Architecture": "amd64",
            "Created": "2026-01-01T00:00:00.123456789Z",
            "Config": {"Labels": self.labels},
            "RootFS": {"Layers": [BASE_LAYER, PATCH_LAYER]},
            **other,
        }
        self.docker.answer(f"image inspect -- {reference}", out=json.dumps([document]))

    def has_base(self, **other: Any) -> None:
        base = {"Config": {}, "RootFS": {"Layers": [BASE_LAYER]}, **other}
        self.has(BASE, "sha256:" + "b" * 64, **base)

    def answers(self) -> None:
        self.docker.answer("version", out="20.10.24\n")

    def has_no(self, reference: str) -> None:
        self.docker.answer(f"image inspect -- {reference}", 1, err=f"Error: No such image: {reference}\n")

    def run(self, *more: str, json: bool = False) -> Result:
        arguments = ["cpu-dev", "--base", BASE, *more]
        return CliRunner().invoke(image, arguments, obj=Context(CHECKOUT, json), catch_exceptions=True)

    def refused(self, *more: str) -> HallmarkError:
        error = self.run(*more).exception
        assert isinstance(error, HallmarkError), repr(error)
        return error


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_a_dry_run_prints_the_dockerfile_and_asks_no_engine(machine: Machine) -> None:
    assert machine.run("--dry-run").stdout.startswith("# Made by `hallmark image cpu-dev`")
    assert not (machine.docker.folder / "calls").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--push", it) for it in ("", "vllm", "a.b/c:tag", "a.b/C", "https://a.b/c", f"a.b/c@sha256:{'1' * 64}")),
        *(("--base", it) for it in ("", "a b", "--all-tags", "a\nRUN b")),
    ],
)
def test_a_name_that_is_none_is_told_before_the_engine_is_asked(machine: Machine, option: str, value: str) -> None:
    error = machine.refused(f"{option}={value}")
    assert (error.exit, str(error).startswith(f"{option}: {value!r} is no")) == (Exit.USAGE, True), error
    assert not (machine.docker.folder / "calls").exists()


def test_a_repository_without_a_host_is_docker_hubs(machine: Machine) -> None:
    assert json.loads(machine.run("--push", "team/vllm", "--dry-run", json=True).stdout)["image"].startswith(
        "team/vllm:"
    )


def test_an_engine_that_does_not_run_is_named(machine: Machine) -> None:
    machine.docker.answer(
        "version", 1, err="Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?\n"
    )
    error = machine.refused()
    assert error.exit == Exit.UNREACHABLE
    assert str(error).startswith("no engine answers at unix:///x.sock — start it, or name another one with DOCKER_HOST")


@pytest.mark.parametrize(
    "words",
    [
        'error during connect: Get "http://foo:2375/v1.50/version": dial tcp: lookup foo: no such host',
        "unable to parse docker host `:::`",
        'Failed to initialize: unable to resolve docker endpoint: context "nope": context not found',
    ],
)
def test_a_wrong_docker_host_is_named_with_dockers_own_words(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "foo")
    machine.docker.answer("version", 1, err=f"{words}\n")
    error = machine.refused()
    assert error.exit == Exit.UNREACHABLE
    assert str(error).startswith(f"DOCKER_HOST=foo: the engine cannot be reached: {words} — name another one")


def test_b8_a_base_of_another_architecture_is_refused_before_anything_is_built(machine: Machine) -> None:
    machine.answers()
    machine.has_base(Architecture="arm64")
    assert str(machine.refused()) == (
        f"--base: the base image {BASE} is for arm64, the profile's hardware is amd64 — name an image for linux/amd64"
    )
    assert not any(call.startswith("build ") for call in machine.docker.calls())


def test_a_base_that_cannot_be_pulled_is_named_with_the_registrys_words(machine: Machine) -> None:
    machine.answers()
    machine.has_no(BASE)
    machine.docker.answer("pull", 1, err="Error response from daemon: manifest for localhost/base:1 not found\n")
    error = machine.refused()
    assert error.exit == Exit.UNREACHABLE
    assert "cannot be pulled: Error response from daemon: manifest for localhost/base:1 not found" in str(error)


def test_b8_a_base_without_this_architecture_in_the_registry_is_said(machine: Machine) -> None:
    machine.answers()
    machine.has_no(BASE)
    machine.docker.answer("pull", 1, err="no matching manifest for linux/amd64 in the manifest list entries\n")
    assert str(machine.refused()).startswith(f"--base: the base image {BASE} is not there for linux/amd64")


def built(machine: Machine, history: str = "RUN something") -> None:
    machine.answers()
    machine.has_base()
    machine.docker.answer("build")
    machine.docker.answer(f"image inspect {BUILT}", out="[]")
    machine.docker.answer("history", out=history)
    machine.docker.answer("image rm")
    machine.docker.answer("tag")


@pytest.mark.parametrize("wrote", ["{", "[1]", '"text"', "[" * 100_000], ids=["cut-off", "list", "text", "deep"])
def test_an_answer_of_the_checks_that_is_none_ends_the_build(machine: Machine, wrote: str) -> None:
    """An image runs its own Python, which may do anything."""
    built(machine)
    machine.has_no(machine.tag)
    program = machine.docker.program
    program.write_text(program.read_text().replace("json.dump(document, file)", f"file.write({wrote!r})"))
    error = machine.refused()
    assert error.exit == Exit.NOT_DONE
    assert str(error).startswith("what the checks wrote inside the image cannot be read — choose another base image")
    assert not any(call.startswith("tag") for call in machine.docker.calls())


def test_the_tag_is_set_when_the_image_was_looked_at(machine: Machine) -> None:
    built(machine)
    machine.has_no(machine.tag)
    machine.has(BUILT)
    result = machine.run(json=True)
    document = json.loads(result.stdout)
    assert (document["image"], document["config_digest"], document["manifest_digest"]) == (machine.tag, BUILT, None)
    assert machine.docker.calls()[-1].endswith(f" {machine.tag}")


def test_the_command_is_shown_as_it_is_run(machine: Machine) -> None:
    built(machine)
    machine.has_no(machine.tag)
    machine.has(BUILT)
    shown = machine.run(json=True).stderr
    calls = [call for call in machine.docker.calls() if call.startswith("build ")]
    assert len(calls) == 2
    assert all(f"+ DOCKER_BUILDKIT=1 {machine.docker.program} {call}\n" in shown for call in calls)


def test_b6_when_nothing_has_changed_the_engine_is_asked_three_times_and_nothing_is_built(machine: Machine) -> None:
    built(machine)
    machine.has_no(machine.tag)
    machine.has(BUILT)
    made = json.loads(machine.run(json=True).stdout)
    machine.docker.forget()
    machine.answers()
    machine.has_base()
    machine.has(machine.tag)
    again = machine.run(json=True)
    assert json.loads(again.stdout) == made
    assert f"nothing has changed since {machine.tag} was built and checked: no build" in again.stderr
    program, engine = machine.docker.calls()[:2], machine.docker.calls()[2:]
    assert program == ["--version", "buildx version"]
    assert [call.partition(" --format")[0] for call in engine] == [
        "version",
        f"image inspect -- {BASE}",
        f"image inspect -- {machine.tag}",
    ]


def test_a_rebuild_of_the_same_files_keeps_the_image_that_has_the_tag(machine: Machine) -> None:
    built(machine)
    older = "sha256:" + "0" * 64
    machine.has(machine.tag, older)
    machine.has(BUILT)
    assert json.loads(machine.run(json=True).stdout)["config_digest"] == older
    assert not any(call.startswith("tag") for call in machine.docker.calls())


def test_a_tag_of_another_image_is_not_moved(machine: Machine) -> None:
    built(machine)
    older = "sha256:" + "0" * 64
    machine.has(machine.tag, older, Config={"Labels": {**machine.labels, "dev.hallmark.base": "sha256:other"}})
    machine.has(BUILT)
    error = machine.refused()
    assert error.exit == Exit.NOT_DONE
    assert f"{machine.tag}: is another image already ({older})" in str(error)
    assert "their dev.hallmark.base differ" in str(error)
    assert not any(call.startswith("tag") for call in machine.docker.calls())


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"Architecture": "arm64"}, "the image is for arm64, the profile's hardware is amd64"),
        ({"RootFS": {"Layers": [PATCH_LAYER]}}, f"does not begin with the layers of {BASE}"),
        ({"Config": {"Labels": {}}}, "lacks the labels org.opencontainers.image.title, "),
    ],
)
def test_an_image_that_is_not_what_was_planned_gets_no_tag(machine: Machine, other: dict[str, Any], says: str) -> None:
    built(machine)
    machine.has_no(machine.tag)
    machine.has(BUILT, **other)
    error = machine.refused()
    assert (error.exit, says in str(error)) == (Exit.MISMATCH, True), error
    assert not any(call.startswith("tag") for call in machine.docker.calls())


SECRET = "hf_TESTtoken0123456789"


def test_b9_a_secret_in_the_images_history_ends_the_build_without_the_image(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    built(machine, f"RUN curl -H 'Authorization: {SECRET}'")
    machine.has_no(machine.tag)
    machine.has(BUILT)
    error = machine.refused()
    assert (error.exit, "the secret HF_TOKEN is in its history" in str(error)) == (Exit.NOT_DONE, True)
    assert SECRET not in str(error)
    assert machine.docker.calls()[-1] == f"image rm --force {BUILT}"
    assert not any(call.startswith("tag") for call in machine.docker.calls())


def test_b7_an_image_that_a_build_finds_again_under_other_names_stays_although_a_secret_is_in_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    names = {"RepoTags": ["hallmark:cpu-dev-certified"], "RepoDigests": ["hallmark@sha256:1"]}
    machine.docker.answer(f"image inspect {BUILT}", out=json.dumps([names]))
    built(machine, f"RUN curl -H 'Authorization: {SECRET}'")
    machine.has_no(machine.tag)
    machine.has(BUILT)
    error = machine.refused()
    assert "stays, it was here before as hallmark:cpu-dev-certified, hallmark@sha256:1" in str(error.problems[-1])
    assert not any(call.startswith(("image rm", "tag")) for call in machine.docker.calls())


def test_b9_no_secret_is_in_what_is_said_or_in_what_docker_is_given(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    built(machine)
    machine.has_no(machine.tag)
    machine.has(BUILT)
    result = machine.run(json=True)
    assert result.exception is None
    folders = [machine.docker.folder.parent / name for name in ("cache", "state")]
    written = [path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert written and not any(SECRET.encode() in content for content in written)
    assert SECRET not in result.stdout + result.stderr + "".join(machine.docker.calls())


def test_b9_a_secret_in_a_layer_of_the_base_ends_it_before_anything_is_built(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    built(machine)
    machine.has_no(machine.tag)
    machine.docker.saves(saved(tar({"root/.netrc": f"password {SECRET}".encode()})))
    error = machine.refused()
    assert [str(problem) for problem in error.problems] == [
        f"the secret HF_TOKEN is in /root/.netrc, in layer 1 of 1 ({BASE_LAYER})",
        "nothing was built — choose another base image, and change that secret: others can read it there",
    ]
    assert error.exit == Exit.NOT_DONE
    assert not any(call.startswith(("build ", "image rm", "tag")) for call in machine.docker.calls())


def test_b9_the_layers_of_a_base_are_searched_once_for_a_secret_and_never_without_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched() -> int:
        machine.docker.forget()
        built(machine)
        machine.has_no(machine.tag)
        machine.has(BUILT)
        assert machine.run(json=True).exception is None
        return machine.docker.calls().count(f"save sha256:{'b' * 64}")

    assert searched() == 0
    monkeypatch.setenv("HF_TOKEN", SECRET)
    assert [searched(), searched()] == [1, 0]
    monkeypatch.setenv("HF_TOKEN", f"{SECRET}-renewed")
    assert [searched(), searched()] == [1, 0]


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "form",
    [SECRET, in_base64(SECRET), in_base64(f"{SECRET}\n"), in_base64(f"me:{SECRET}\n"), in_base64(f"user:{SECRET}")],
)
def test_b9_a_secret_is_found_in_a_file_as_it_is_and_in_base64(form: str) -> None:
    places = {"/vllm/a.py": f"TOKEN = '{form}'".encode(), "/vllm/b.py": b"TOKEN = None"}
    assert list(leaks.search(places, {"HF_TOKEN": SECRET})) == [("/vllm/a.py", "HF_TOKEN")]


def test_b9_the_password_of_a_private_index_is_a_secret_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"https://builder:{SECRET}@index.example/simple")
    assert given.known({})["PIP_INDEX_URL"] == SECRET
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"https://a:{SECRET}1@a.example/simple https://b:{SECRET}2@b.example")
    assert {f"{SECRET}1", f"{SECRET}2"} <= set(given.known({}).values())


@pytest.mark.parametrize(
    "secret", ["with\"quotes\\and'more", "with&ampersands<>", "\udcff-is-no-UTF-8", "p%40ss%2Fword-of-it"]
)
def test_b9_a_secret_is_found_in_the_configuration_whatever_characters_it_has(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", f"{secret}\n")
    machine.answers()
    machine.has_base()
    machine.docker.answer("build")
    # Docker writes these characters as it likes, here as Go does for pages.
    told = (
        json.dumps([{"Config": {"Env": [f"TOKEN={unquote(secret)}"]}}]).replace("&", "\\u0026").replace("<", "\\u003c")
    )
    machine.docker.answer(f"image inspect {BUILT}", out=told)
    built(machine)
    machine.has_no(machine.tag)
    machine.has(BUILT)
    assert "the secret HF_TOKEN is in its configuration" in str(machine.refused())


def test_b9_the_dockerfile_takes_no_argument_and_sets_no_variable_that_could_hold_a_secret(machine: Machine) -> None:
    lines = json.loads(machine.run("--dry-run", json=True).stdout)["dockerfile"].splitlines()
    assert [line for line in lines if line.startswith(("ARG", "ENV"))] == ["ARG SOURCE_DATE_EPOCH"]


def pushed(machine: Machine, at: StandInRegistry, status: int, out: str) -> None:
    built(machine)
    machine.tag = machine.tag.replace("hallmark:", f"{at.address}/h:")
    machine.has_no(machine.tag)
    machine.has(BUILT)
    machine.docker.answer("push", status, out=out)
    machine.docker.answer("pull")


@pytest.fixture
def at() -> Iterator[StandInRegistry]:
    with StandInRegistry() as registry:
        yield registry


def test_what_was_pushed_is_asked_for_by_its_digest(machine: Machine, at: StandInRegistry) -> None:
    digest = at.has_from_now(f"sha256:{'e' * 64}", BUILT, [BASE_LAYER, PATCH_LAYER], machine.labels)
    pushed(machine, at, 0, f"cpu-dev: digest: {digest} size: 948\n")
    error = machine.refused("--push", f"{at.address}/h")
    # The stand-in's configuration has another digest than the engine says that it pushed.
    assert (error.exit, "pushed was sha256:aaa" in str(error)) == (Exit.MISMATCH, True)
    assert at.asked[-2:] == [f"/v2/h/manifests/{digest}", f"/v2/h/blobs/{at.configuration(digest)}"]


def test_b5_a_remote_tag_of_another_image_is_not_moved(machine: Machine, at: StandInRegistry) -> None:
    pushed(machine, at, 0, "")
    at.has_from_now(machine.tag.rpartition(":")[2], BUILT, [BASE_LAYER], {})
    error = machine.refused("--push", f"{at.address}/h")
    assert (error.exit, "a tag never moves" in str(error)) == (Exit.NOT_DONE, True)
    assert not any(call.startswith("push") for call in machine.docker.calls())


@pytest.mark.parametrize(
    ("status", "out"), [(1, "Preparing\ndenied: requested access to the resource is denied\n"), (0, "denied: quota\n")]
)
def test_b2_a_push_that_was_denied_or_gave_no_digest_is_an_error(
    machine: Machine, at: StandInRegistry, status: int, out: str
) -> None:
    pushed(machine, at, status, out)
    error = machine.refused("--push", f"{at.address}/h")
    assert (error.exit, "denied" in str(error)) == (Exit.UNREACHABLE, True)


def test_a_fork_has_no_image_of_ours() -> None:
    error = CliRunner().invoke(image, ["gb10-nvfp4-original"], obj=Context(CHECKOUT, False)).exception
    assert isinstance(error, HallmarkError)
    assert error.exit == Exit.NOT_DONE
    assert "runs the fork 'aidendle94-sparkrun-ds4', which is launched as it is and takes no patches" in str(error)


def test_a_profile_without_a_base_asks_for_one(tmp_path: Path) -> None:
    text = (CHECKOUT / "configs/profiles/cpu-dev.yaml").read_text()
    (tmp_path / "mine.yaml").write_text("".join(line for line in text.splitlines(True) if not line.startswith("base:")))
    error = CliRunner().invoke(image, [str(tmp_path / "mine.yaml")], obj=Context(CHECKOUT, False)).exception
    assert "base: mine names no base image — add it, or give --base REF" in str(error)


def test_b6_engines_that_take_turns_each_know_their_own_image_again(tmp_path: Path) -> None:
    for digest in ("sha256:a", "sha256:b", "sha256:a"):
        context.write_built(tmp_path, "hallmark:p", digest)
    assert context.built(tmp_path, "hallmark:p") == {"sha256:a", "sha256:b"}
    assert context.built(tmp_path, "hallmark:other") == set()
