"""Extra packages in real images: real wheels from pip's index, pinned by hash, installed without a network."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipe.catalogue.wheels import wheel
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit
from scripts.bases import archive, vllm
from scripts.engines.engine import Engine
from scripts.engines.group import Group

pytestmark = pytest.mark.docker
_HALLMARK = Path(sys.executable).parent / "hallmark"
_METADATA = "vllm-0.33.0.dist-info/METADATA"
_MORE = 'Provides-Extra: small\nRequires-Dist: markdown-it-py==3.0.0; extra == "small"\n'
# It is text of one of the wheels, so an image that has the wheel has it.
_SECRET = "Reference: RFC 3986, RFC 1808"


@dataclass(frozen=True)
class Project:
    """A folder with profiles, whose base has the sources of vLLM 0.33.0 with one extra more."""

    home: Path

    @property
    def lock(self) -> Path:
        return self.home / "configs/pins.lock"

    def profile(self, name: str, **changes: Any) -> None:
        values = yaml.safe_load((CHECKOUT / "configs/profiles/h200-fp8-dspark.yaml").read_text())
        # A folder's name is in no model hub.
        values |= {"base": "localhost/small-extra:1", "extras": ["small"], "model": "DeepSeek-V4-Flash", **changes}
        path = self.home / f"configs/profiles/{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(values))

    def run(self, engine: Engine, *words: str, **variables: str) -> tuple[int, dict[str, Any], str]:
        done = subprocess.run(
            [str(_HALLMARK), "--home", str(self.home), *words, "--json"],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "DOCKER_HOST": engine.host, **variables},
        )
        return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture
def project(nodes: Group, tmp_path: Path) -> Iterator[Project]:
    metadata = wheel("0.33.0").read(_METADATA)
    assert metadata is not None
    head, _, body = metadata.decode().partition("\n\n")
    base = vllm.changed(vllm.amd64(), "localhost/small-extra:1", {_METADATA: f"{head}\n{_MORE}\n{body}".encode()})
    for it in nodes.engines:
        archive.load(base, it.client, it.host)
    made = Project(tmp_path)
    made.profile("mine")
    yield made


def test_extra_packages_are_pinned_by_hash_installed_and_the_same_layer_on_two_engines(
    project: Project, nodes: Group
) -> None:
    """One story, because each build takes seconds."""
    left, right = nodes.engines
    status, unpinned, told = project.run(left, "image", "mine")
    assert status == Exit.OK, told
    assert "are not pinned, they are markdown-it-py 3.0.0, mdurl" in told and "hallmark pin mine" in told
    extras = json.loads(unpinned["labels"]["dev.hallmark.extras"])
    assert sorted(extras) == ["markdown-it-py", "mdurl"]
    words = ("run", "--rm", "--network=none", unpinned["image"], "python3", "-c")
    ran = left.docker(*words, "import markdown_it; print(markdown_it.MarkdownIt().render('*a*'))").stdout
    assert ran.strip() == "<p><em>a</em></p>"

    assert project.run(left, "pin", "mine")[0] == Exit.OK
    pinned = project.lock.read_text()
    assert "://" not in pinned
    packages = yaml.safe_load(pinned)["profiles"]["mine"]["extras"]["packages"]
    assert [it["name"] for it in packages] == ["pip", "markdown-it-py", "mdurl"]
    assert {it["name"]: f"{it['version']} sha256:{it['sha256']}" for it in packages[1:]} == extras
    status, again, told = project.run(left, "image", "mine")
    assert (status, "nothing has changed since" in told) == (Exit.OK, True), told
    status, other, told = project.run(right, "image", "mine")
    assert status == Exit.OK, told
    assert "not pinned" not in told
    assert (other["labels"], layers(right, other["image"])) == (again["labels"], layers(left, again["image"]))

    project.profile("leaky")
    status, refused, told = project.run(left, "image", "leaky", HF_TOKEN=_SECRET)
    message = refused["error"]["message"]
    assert (status, "the secret HF_TOKEN is in /usr/local/lib/python3.11/" in message) == (Exit.NOT_DONE, True), told
    assert "mdurl/_parse.py" in message and _SECRET not in told
    assert "hallmark:leaky" not in left.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").stdout

    project.profile("mine", extras=[])
    status, refused, _ = project.run(left, "image", "mine")
    assert (status, "was pinned with the extras small" in refused["error"]["message"]) == (Exit.NOT_DONE, True)
    project.profile("mine")
    project.lock.write_text(pinned.replace(packages[2]["sha256"], "0" * 64))
    status, refused, _ = project.run(left, "image", "mine")
    assert status == Exit.MISMATCH
    assert "pip's index has another file than was pinned" in refused["error"]["message"]


def layers(engine: Engine, image: str) -> list[str]:
    found: list[str] = json.loads(engine.docker("image", "inspect", image).stdout)[0]["RootFS"]["Layers"]
    return found
