"""What is built: Dockerfile, labels, tag, and docker's command line."""

import errno
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from recipe.applier.patchset import PatchSet
from recipe.config.paths import CHECKOUT
from recipe.errors import HallmarkError
from recipe.image import bom, context
from recipe.image import plan as planning
from recipe.image.checks import Answer, Verdict
from recipe.image.client import Client
from recipe.image.inspect import Image
from recipe.image.packages import Package
from recipe.image.plan import (
    BOM,
    MANIFEST,
    Build,
    about,
    build_argv,
    build_environment,
    checked,
    checks_argv,
    patchset_of,
    plan,
    quoted,
    tag,
)
from recipe.image.said import unverified

PATCHSET = PatchSet({"schema": 1, "vllm": "0.33.0", "patches": [{"id": "one"}, {"id": "two"}], "baseline": {}})
BASE = Image("sha256:" + "b" * 64, "sha256:" + "c" * 64, "arm64", 1767225600, {}, ("sha256:l",), {})


EXTRA = Package(name="b12x", version="1.5.1", file="b12x-1.5.1-py3-none-any.whl", sha256="e" * 64)


def planned(
    base: Image | None = BASE, reference: str = "vllm/vllm-openai:v0.33.0", extras: tuple[Package, ...] = ()
) -> Build:
    return plan("gb10-nvfp4", PATCHSET, "arm64", reference, base, "hallmark", b"{}", extras)


def test_the_tag_names_profile_release_and_patch_set() -> None:
    assert planned().tag == f"hallmark:gb10-nvfp4-0.33.0-{PATCHSET.sha256[:8]}"


def test_a_local_version_makes_a_tag_that_a_registry_takes() -> None:
    made = tag("host:5000/a", "p", "0.23.1rc1.dev748+g1a2b", "0123456789")
    assert made == "host:5000/a:p-0.23.1rc1.dev748_g1a2b-01234567"


def test_labels_say_what_is_in_the_image() -> None:
    assert planned().labels == {
        "org.opencontainers.image.title": "vLLM 0.33.0 for gb10-nvfp4",
        "org.opencontainers.image.version": f"0.33.0-{PATCHSET.sha256[:8]}",
        "org.opencontainers.image.base.name": "vllm/vllm-openai:v0.33.0",
        "org.opencontainers.image.base.digest": "sha256:" + "c" * 64,
        "dev.hallmark.profile": "gb10-nvfp4",
        "dev.hallmark.vllm": "0.33.0",
        "dev.hallmark.patchset": PATCHSET.sha256,
        "dev.hallmark.patches": "one,two",
        "dev.hallmark.base": "sha256:" + "b" * 64,
    }


@pytest.mark.parametrize("label", ["", "../../..", "C" * 64, "c" * 63, "c" * 64 + "\n"])
def test_a_label_that_is_no_digest_names_no_patch_set(label: str) -> None:
    """Anybody can label an image, and the compile cache that is mounted is called by its patch set."""
    assert patchset_of({"dev.hallmark.patchset": label}) is None
    assert patchset_of({"dev.hallmark.patchset": PATCHSET.sha256}) == PATCHSET.sha256
    assert patchset_of({}) is None


def test_without_an_engine_the_digests_of_the_base_are_left_out() -> None:
    assert {key for key in planned().labels if key not in planned(None).labels} == {
        "org.opencontainers.image.base.digest",
        "dev.hallmark.base",
    }


def test_the_dockerfile_needs_nothing_newer_than_docker_20_10() -> None:
    text = planned().dockerfile
    assert "syntax=" not in text and "<<" not in text and "--link" not in text
    assert set(re.findall(r"^[A-Z]+", text, re.MULTILINE)) == {"FROM", "ARG", "RUN", "COPY", "LABEL"}


def test_the_image_is_the_base_with_one_layer_more_and_what_the_checks_leave_behind_is_not_in_it() -> None:
    stages = re.split(r"^FROM ", planned().dockerfile, flags=re.MULTILINE)[1:]
    assert [stage.splitlines()[0] for stage in stages] == [
        "vllm/vllm-openai:v0.33.0 AS base",
        "base AS patched",
        "patched AS checks",
        "scratch AS results",
        "patched",
    ]
    assert [len(re.findall(r"^(?:RUN|COPY|ADD)", stage, re.MULTILINE)) for stage in stages] == [0, 1, 1, 1, 0]


def test_extra_packages_are_a_stage_before_the_patches_and_a_label() -> None:
    build = planned(extras=(EXTRA,))
    stages = [line for line in build.dockerfile.splitlines() if line.startswith("FROM ")][:3]
    assert stages == ["FROM vllm/vllm-openai:v0.33.0 AS base", "FROM base AS extras", "FROM extras AS patched"]
    assert json.loads(build.labels["dev.hallmark.extras"]) == {"b12x": f"1.5.1 sha256:{'e' * 64}"}
    script = (CHECKOUT / "dockerfiles/install-extras.sh").read_text()
    assert {"--no-deps", "--require-hashes", "--no-index", "--no-compile"} <= set(script.split())


def test_the_checks_write_their_answers_to_a_folder_and_no_image() -> None:
    argv = checks_argv(planned(), Client("docker", buildx=False), Path("/c"), Path("/o"))
    assert " ".join(argv[-7:]) == "--target results --output type=local,dest=/o --file /c/Dockerfile /c"


def test_labels_hold_what_each_check_said_the_manifest_and_the_bill_of_materials() -> None:
    said = [Verdict("serve", "pass", "18 settings"), Verdict("extensions", "skipped", "no compiled extensions")]
    patchset = PatchSet({**PATCHSET.document, "patches": [{"id": "one", "title": "First"}]})
    answer = Answer(
        tuple(said), [{"name": "vllm", "version": "0.33.0"}], {"patches": {"one": {"state": "applied"}}}, {}
    )
    build = checked(planned(), patchset, said, answer)
    assert bom.unpacked(build.labels[MANIFEST]) == answer.manifest
    (component,) = bom.unpacked(build.labels[BOM])["components"]
    assert component["purl"] == "pkg:pypi/vllm@0.33.0"
    assert component["pedigree"]["patches"][0]["resolves"][0]["name"] == "First"
    assert json.loads(build.labels["dev.hallmark.checks"]) == {
        "serve": "pass",
        "extensions": "skipped: no compiled extensions",
    }
    assert "dev.hallmark.checks=" in build.dockerfile
    assert unverified(build.labels) == ["extensions: skipped: no compiled extensions"]


@pytest.mark.parametrize(
    "build", [planned(), planned(extras=(EXTRA,)), about("p", "arm64", "base:1")], ids=["plain", "extras", "about"]
)
def test_the_dockerfile_passes_hadolint(tmp_path: Path, build: Build) -> None:
    (tmp_path / "Dockerfile").write_text(build.dockerfile)
    program = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([program, tmp_path / "Dockerfile"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_b6_one_byte_of_a_patch_changes_the_label_and_one_file_that_the_patch_step_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path))
    patches: list[dict[str, Any]] = [{"id": "one", "title": title, "edits": []} for title in ("a", "b")]
    sets = [PatchSet({**PATCHSET.document, "patches": [patch]}) for patch in patches]
    builds = [plan("p", it, "arm64", "b:1", BASE, "hallmark", b"{}") for it in sets]
    folders = [context.write(build, it) for build, it in zip(builds, sets, strict=True)]
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert {name for name in files[0] if files[0][name] != files[1][name]} == {"patchset.json", "Dockerfile"}
    assert builds[0].labels["dev.hallmark.patchset"] != builds[1].labels["dev.hallmark.patchset"]
    stages = [build.dockerfile.partition("LABEL")[0] for build in builds]
    assert stages[0] == stages[1]


def test_a_wheel_whose_copy_was_cut_off_is_copied_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "pip-1-py3-none-any.whl"
    wheel.write_bytes(b"the whole wheel")
    pip = Package(name="pip", version="1", file=wheel.name, sha256="e" * 64)
    monkeypatch.setattr("recipe.image.packages.held", lambda packages: {it.file: wheel for it in packages})
    copy = shutil.copyfile

    def cut_off(source: Path, target: Path) -> None:
        target.write_bytes(b"the who")
        raise OSError(errno.ENOSPC, "No space left on device")

    # As between two file systems.
    monkeypatch.setattr("os.link", lambda *_: cut_off(wheel, tmp_path / "nothing"))
    monkeypatch.setattr("shutil.copyfile", cut_off)
    with pytest.raises(HallmarkError, match="No space left on device"):
        context.write(planned(extras=(pip,)), PATCHSET)
    monkeypatch.setattr("shutil.copyfile", copy)
    folder = context.write(planned(extras=(pip,)), PATCHSET)
    assert (folder / "extras/pip.whl").read_bytes() == wheel.read_bytes()
    assert not [path for path in folder.rglob("*") if path.name.endswith(".new")]


def test_every_mount_of_the_patch_step_is_below_dev() -> None:
    targets = re.findall(r"target=(\S+)", planned().dockerfile)
    assert targets and all(target.startswith("/dev/") for target in targets)


def test_every_label_is_one_word_of_the_dockerfile() -> None:
    assert quoted('a "b" $c \\') == r'"a \"b\" \$c \\"'
    lines = planned().dockerfile.partition("LABEL \\\n")[2].splitlines()
    assert len(lines) == len(planned().labels)
    assert [line.endswith("\\") for line in lines] == [True] * (len(lines) - 1) + [False]


def test_c1_a_label_that_is_json_comes_back_as_it_was() -> None:
    value = json.dumps({"note": 'it\'s $5 "q" `x` ü\\'}, ensure_ascii=False)
    assert json.loads(quoted(value).replace("\\$", "$")) == value


def test_c5_a_template_that_names_what_nobody_gave_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for template in ("Dockerfile.j2", "About.j2"):
        text = (planning._TEMPLATES / template).read_text()
        (tmp_path / template).write_text(text.replace("{{ base }}", "{{ bse }}"))
    monkeypatch.setattr(planning, "_TEMPLATES", tmp_path)
    with pytest.raises(UndefinedError, match="'bse' is undefined"):
        planned()
    with pytest.raises(UndefinedError, match="'bse' is undefined"):
        about("p", "arm64", "base:1")


@pytest.mark.parametrize("reference", ["a b", "a\nRUN x", "--platform=x", "", "$BASE"])
def test_what_is_no_reference_cannot_get_into_the_dockerfile(reference: str) -> None:
    with pytest.raises(HallmarkError, match="is not an image reference — write for example repository:tag"):
        planned(reference=reference)


def test_a_client_with_buildkit_built_in_is_told_so() -> None:
    client = Client("/usr/bin/docker", buildx=False)
    assert build_environment(client) == {"DOCKER_BUILDKIT": "1"}
    assert " ".join(build_argv(planned(), client, Path("/c"), Path("/id"))) == (
        "/usr/bin/docker build --progress=plain --platform linux/arm64 --network=none"
        " --build-arg SOURCE_DATE_EPOCH=1767225600 --iidfile /id --file /c/Dockerfile.checked /c"
    )


def test_buildx_builds_in_the_engine_loads_the_image_and_adds_no_attestation() -> None:
    client = Client("docker", buildx=True, context="rootless")
    assert build_environment(client) == {"BUILDX_BUILDER": "rootless", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
    assert " ".join(build_argv(planned(), client, Path("/c"), Path("/id"))[:4]) == "docker buildx build --load"


def test_no_tag_is_given_to_the_build_because_the_result_is_looked_at_first() -> None:
    for buildx in (True, False):
        argv = build_argv(planned(), Client("docker", buildx), Path("/c"), Path("/id"))
        assert not {"-t", "--tag"} & set(argv)
