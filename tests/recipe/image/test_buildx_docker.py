"""Real builds through the real buildx, compared with those that the engine's own BuildKit makes."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from recipe.catalogue.wheels import wheel
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit
from recipe.image.reference import Reference
from recipe.image.registry import OCI_MANIFEST, Repository
from scripts.bases import archive, vllm
from scripts.engines import registry
from scripts.engines.engine import Engine
from scripts.engines.group import Group
from scripts.engines.newer import BUILDX, newer
from tests.conftest import possible
from tests.standin.world import free_ports

pytestmark = pytest.mark.docker
_HALLMARK = Path(sys.executable).parent / "hallmark"
_PATCHED = "vllm/models/deepseek_v4/nvidia/dspark.py"
_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@dataclass(frozen=True)
class Client:
    """The docker program of an engine, with settings of its own that say whether it has buildx."""

    engine: Engine
    settings: Path
    variables: dict[str, str] = field(default_factory=dict)

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        own = {"DOCKER_CONFIG": str(self.settings), "HALLMARK_DOCKER": self.engine.client}
        found = {**os.environ, "DOCKER_HOST": self.engine.host, **own, **self.variables, **more}
        return {name: value for name, value in found.items() if value}

    def hallmark(self, *words: str, **more: str) -> tuple[int, dict[str, Any], str]:
        """Status, document, and what was told."""
        argv = [str(_HALLMARK), *words, "--json"]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, env=self._environment(more))
        return done.returncode, json.loads(done.stdout), done.stderr

    def docker(self, *words: str, **more: str) -> str:
        argv = [self.engine.client, *words]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, env=self._environment(more))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def facts(self, reference: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.docker("image", "inspect", reference))[0]
        return found


def profile(folder: Path, name: str, base: archive.Base) -> str:
    """A profile of h200-fp8-dspark's patches with a name, and so a tag, of its own; gives its path."""
    text = (CHECKOUT / "configs/profiles/h200-fp8-dspark.yaml").read_text()
    lines = [f"base: {base.reference}" if it.startswith("base:") else it for it in text.splitlines()]
    path = folder / f"{name}.yaml"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def base(nodes: Group) -> archive.Base:
    """Of these tests alone, so that no engine has what is built on it in its cache."""
    made = vllm.changed(vllm.amd64(), "localhost/through:1", {"vllm/of_these_tests.py": b"\n"})
    for it in nodes.engines:
        archive.load(made, it.client, it.host)
    return made


@pytest.fixture(scope="module")
def through(base: archive.Base, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The profile that most of these tests build."""
    return profile(tmp_path_factory.mktemp("profile"), "through", base)


@pytest.fixture(scope="module")
def plain(nodes: Group, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Without buildx, on the second engine."""
    return Client(nodes.engines[1], tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def buildx(nodes: Group, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """With buildx, on the first engine."""
    settings = tmp_path_factory.mktemp("buildx")
    (settings / "cli-plugins").mkdir()
    with possible():
        (settings / "cli-plugins/docker-buildx").symlink_to(newer(BUILDX))
    return Client(nodes.engines[0], settings)


@pytest.fixture(scope="module")
def made(buildx: Client, through: str) -> dict[str, Any]:
    status, document, told = buildx.hallmark("image", through)
    assert status == Exit.OK, told
    assert f"{buildx.engine.client} buildx build --load" in told
    return document


def test_a6_buildx_and_the_engines_own_buildkit_make_the_same_layer_labels_and_manifest_of_patches(
    made: dict[str, Any], buildx: Client, plain: Client, through: str
) -> None:
    status, other, told = plain.hallmark("image", through)
    assert status == Exit.OK, told
    assert f"+ DOCKER_BUILDKIT=1 {plain.engine.client} build " in told and "buildx" not in told
    left, right = buildx.facts(made["image"]), plain.facts(other["image"])
    assert left["RootFS"]["Layers"] == right["RootFS"]["Layers"]
    assert left["Config"]["Labels"] == right["Config"]["Labels"] == made["labels"]
    manifests = [next(Path(it["GraphDriver"]["Data"]["UpperDir"]).rglob("PATCHES.json")) for it in (left, right)]
    assert manifests[0].read_bytes() == manifests[1].read_bytes()


def test_b6_through_buildx_nothing_is_built_again_and_a_rebuild_for_a_check_gives_the_same_layer(
    made: dict[str, Any], buildx: Client, through: str
) -> None:
    status, again, told = buildx.hallmark("image", through)
    assert (status, again, "nothing has changed since" in told) == (Exit.OK, made, True), told
    # Those of one moment have no order of their own.
    before = sorted(buildx.docker("image", "ls", "--all", "--quiet", "--no-trunc").split())
    status, checked, told = buildx.hallmark("images", "check", through)
    assert (status, checked.get("same"), checked.get("config_digest")) == (Exit.OK, True, made["config_digest"]), told
    assert sorted(buildx.docker("image", "ls", "--all", "--quiet", "--no-trunc").split()) == before


@pytest.mark.parametrize("how", ["use", "variable"])
def test_a_builder_that_somebody_selected_is_not_used(
    made: dict[str, Any], buildx: Client, through: str, how: str
) -> None:
    """One in a container has none of the engine's images, and this one could not even be started."""
    named = () if how == "variable" else ("--use",)
    buildx.docker("buildx", "create", "--name", how, "--driver", "docker-container", *named)
    try:
        more = {"BUILDX_BUILDER": how} if how == "variable" else {}
        assert "docker-container" in buildx.docker("buildx", "inspect", **more)
        status, checked, told = buildx.hallmark("images", "check", through, **more)
        assert (status, checked.get("same")) == (Exit.OK, True), told
    finally:
        buildx.docker("buildx", "rm", how)


def test_buildx_builds_on_the_engine_of_the_context_that_is_in_use(
    buildx: Client, plain: Client, base: archive.Base, tmp_path: Path
) -> None:
    there = replace(base, reference="localhost/only-there:1")
    plain.docker("tag", base.reference, there.reference)
    buildx.docker("context", "create", "other", "--docker", f"host={plain.engine.host}")
    client = Client(plain.engine, buildx.settings, {"DOCKER_CONTEXT": "other", "DOCKER_HOST": ""})
    status, document, told = client.hallmark("image", profile(tmp_path, "of-context", there))
    assert (status, " buildx build --load" in told) == (Exit.OK, True), told
    assert plain.facts(document["image"])["Id"] == document["config_digest"]


def test_a_step_that_fails_in_buildx_is_told_in_its_own_words_with_its_status_and_no_tag_is_made(
    buildx: Client, tmp_path: Path
) -> None:
    source = wheel("0.33.0").read(_PATCHED)
    assert source is not None and source.count(b"class DSparkDeepseekV4ForCausalLM(") == 1
    other = source.replace(b"class DSparkDeepseekV4ForCausalLM(", b"class DSparkDeepseekV4CausalLM(")
    renamed = vllm.changed(vllm.amd64(), "localhost/renamed-class:1", {_PATCHED: other})
    bare = archive.Base("localhost/without-vllm:1", "amd64", renamed.layers[:1])
    named = ("image", "ls", "hallmark", "--no-trunc", "--format", "{{.Tag}} {{.ID}}")
    before = buildx.docker(*named)
    for on, expected, words in (
        (renamed, Exit.NOT_DONE, "DSparkDeepseekV4CausalLM"),
        (bare, Exit.USAGE, "hallmark: no Python in this base image has vLLM — name an image with vLLM as the base"),
    ):
        archive.load(on, buildx.engine.client, buildx.engine.host)
        status, document, told = buildx.hallmark("image", profile(tmp_path, "fails", on))
        problems = document["error"]["message"].splitlines()
        assert (status, words in problems[0]) == (expected, True), told
        assert problems[-1] == "no image was made, and no tag was made or moved", told
        assert words in "\n".join(line for line in told.splitlines() if line.startswith("#"))
    assert buildx.docker(*named) == before


def test_b5_what_is_pushed_is_a_plain_image_under_the_digest_that_is_told(
    buildx: Client, through: str, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    with possible():
        at = registry.start(tmp_path, port)
    try:
        words = ("image", through, "--push", f"{at.address}/team/vllm")
        status, pushed, told = buildx.hallmark(*words)
        assert status == Exit.OK, told
        tag = pushed["image"].rpartition(":")[2]
        with Repository(Reference(at.address, "team/vllm")) as repository:
            # An attestation would have made a list of it.
            found = repository.manifest(tag)
            assert found is not None and found.kind in (OCI_MANIFEST, _DOCKER_MANIFEST)
            assert (found.digest, found.config) == (pushed["manifest_digest"], pushed["config_digest"])
            assert repository.tags() == [tag]
        status, shown, told = buildx.hallmark("images", "show", f"{at.address}/team/vllm@{found.digest}")
        assert (status, shown["config_digest"]) == (Exit.OK, pushed["config_digest"]), told
    finally:
        at.end()
