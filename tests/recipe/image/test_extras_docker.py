"""Extra packages in real images: real wheels from pip's index, pinned by hash, installed without a network."""

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.utils import canonicalize_name

from recipe.catalogue.wheels import wheel
from recipe.config import paths
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit
from recipe.image import leaks
from scripts.bases import archive, vllm
from scripts.engines.engine import Engine
from scripts.engines.group import Group

pytestmark = pytest.mark.docker
_HALLMARK = Path(sys.executable).parent / "hallmark"
_METADATA = "vllm-0.33.0.dist-info/METADATA"
_MORE = 'Provides-Extra: small\nRequires-Dist: markdown-it-py==3.0.0; extra == "small"\n'
# It is text of one of the wheels, so an image that has the wheel has it.
_SECRET = "Reference: RFC 3986, RFC 1808"
_TOKEN = "idx_TESTtoken0123456789"


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


@dataclass
class Gated:
    """An index on loopback that wants a token in the user's place. `asked`: what was given to who had it."""

    address: str
    asked: list[str]


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    folder = tmp_path / "wheels"
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*words, "markdown-it-py==3.0.0", "mdurl", "pip"], check=True)
    wheels = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = Gated("", [])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != f"Basic {base64.b64encode(f'{_TOKEN}:'.encode()).decode()}":
                self.send_error(401)
                return
            name = self.path.strip("/").rpartition("/")[2]
            found.asked.append(name)
            own = [it for it in wheels if canonicalize_name(it.partition("-")[0]) == name]
            page = "".join(f'<a href="/files/{it}">{it}</a>' for it in own).encode()
            content = wheels.get(name, page)
            self.send_response(200 if content else 404)
            self.send_header("Content-Type", "application/zip" if name in wheels else "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found.address = f"http://{_TOKEN}@127.0.0.1:{server.server_port}/simple"
        yield found
        server.shutdown()


def test_b9_the_token_of_a_private_index_is_nowhere_in_what_a_build_leaves_behind(
    project: Project, nodes: Group, gated: Gated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is pip's on this machine, so no step of the build has to be given it."""
    # What was searched before is remembered with the key that is there.
    monkeypatch.setenv("HALLMARK_STATE", str(tmp_path / "state"))
    engine = nodes.engines[0]
    project.profile("gated")
    index = {"PIP_INDEX_URL": gated.address, "PIP_CONFIG_FILE": os.devnull}
    status, refused, told = project.run(engine, "image", "gated", **index | {"PIP_INDEX_URL": _without(gated)})
    assert (status, "cannot fetch" in refused["error"]["message"]) == (Exit.UNREACHABLE, True), told

    assert project.run(engine, "pin", "gated", **index)[0] == Exit.OK
    status, made, told = project.run(engine, "image", "gated", **index)
    assert status == Exit.OK, told
    assert {it.partition("-")[0] for it in gated.asked if it.endswith(".whl")} == {"markdown_it_py", "mdurl", "pip"}
    assert "layers of the base are searched for PIP_INDEX_URL" in told

    saved = [engine.client, "--host", engine.host, "save", made["image"]]
    left = {
        "layers, configuration and history": subprocess.run(saved, check=True, capture_output=True).stdout,
        "labels": json.dumps(made).encode(),
        "what was told": told.encode(),
        **{
            str(path): path.read_bytes()
            for folder in (*paths.cache().glob("builds/*gated-*"), tmp_path / "state", project.home / "configs")
            for path in folder.rglob("*")
            if path.is_file()
        },
    }
    assert any(name.endswith("/pins.lock") for name in left) and any("/builds/" in name for name in left)
    assert list(leaks.search(left, {"token": _TOKEN, "login": f"{_TOKEN}:"})) == []


def _without(gated: Gated) -> str:
    return gated.address.replace(f"{_TOKEN}@", "")


def test_b9_a_secret_in_a_layer_of_the_base_that_a_later_one_hides_ends_it_before_anything_is_built(
    project: Project, nodes: Group, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HALLMARK_STATE", str(tmp_path / "state"))
    engine = nodes.engines[0]
    file = "root/.cache/huggingface/token"
    hidden = [
        archive.layer(name, "of a test", lambda out, at=at, text=text: archive.add(out, at, text))  # type: ignore[misc]
        for name, at, text in (
            ("leaky", file, f"{_TOKEN}\n".encode()),
            ("hidden", file.replace("token", ".wh.token"), b""),
        )
    ]
    base = vllm.amd64()
    leaky = replace(base, reference="localhost/leaky:1", layers=(*base.layers, *hidden))
    archive.load(leaky, engine.client, engine.host)
    project.profile("leaky", base=leaky.reference, extras=[])
    status, refused, told = project.run(engine, "image", "leaky", HF_TOKEN=_TOKEN)
    count = len(leaky.layers)
    place = f"/{file}, in layer {count - 1} of {count} (sha256:{hidden[0].sha256})"
    assert (status, f"the secret HF_TOKEN is in {place}" in refused["error"]["message"]) == (Exit.NOT_DONE, True), told
    assert " build " not in told and _TOKEN not in told


def layers(engine: Engine, image: str) -> list[str]:
    found: list[str] = json.loads(engine.docker("image", "inspect", image).stdout)[0]["RootFS"]["Layers"]
    return found
