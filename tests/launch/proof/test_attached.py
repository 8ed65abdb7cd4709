"""Certificates beside an image in a real registry, and the commands that read them there."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.proof import attached
from recipe.image.reference import Reference
from recipe.image.registry import OCI_CONFIG, OCI_MANIFEST, Repository
from scripts.engines import registry
from tests.conftest import possible
from tests.standin.world import free_ports

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[registry.Registry]:
    [port] = free_ports(1)
    with possible():
        made = registry.start(tmp_path_factory.mktemp("registry"), port)
    yield made
    made.end()


@pytest.fixture
def repository(started: registry.Registry, tmp_path: Path) -> Iterator[Repository]:
    with Repository(Reference(started.address, f"x{abs(hash(tmp_path))}")) as made:
        yield made


def image(repository: Repository) -> str:
    """The manifest's digest of an image without layers."""
    config = repository.put_blob(OCI_CONFIG, b'{"architecture":"amd64","os":"linux"}')
    content = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": []}
    return repository.put_manifest("one", OCI_MANIFEST, json.dumps(content).encode())


def test_an_envelope_is_a_layer_of_the_manifest_that_cosign_looks_for(repository: Repository) -> None:
    manifest = image(repository)
    assert attached.read(repository, manifest) == []
    assert attached.attach(repository, manifest, b'{"payload":"a"}') is True
    written = repository.manifest(f"sha256-{manifest.removeprefix('sha256:')}.att")
    assert written is not None and written.kind == "application/vnd.oci.image.manifest.v1+json"
    [layer] = written.document["layers"]
    assert layer["mediaType"] == "application/vnd.dsse.envelope.v1+json"
    assert layer["annotations"] == {
        "dev.cosignproject.cosign/signature": "",
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
    }
    config = written.document["config"]
    assert config["mediaType"] == "application/vnd.oci.image.config.v1+json"
    assert json.loads(repository.blob(config["digest"]))["rootfs"]["diff_ids"] == [layer["digest"]]


def test_what_is_attached_stays_whoever_attached_it(repository: Repository) -> None:
    manifest = image(repository)
    tag = attached.tag(manifest)
    foreign = {**repository.put_blob("application/vnd.dsse.envelope.v1+json", b"{}"), "annotations": {"mine": "1"}}
    config = repository.put_blob(OCI_CONFIG, b"{}")
    content = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": [foreign]}
    content["annotations"] = {"theirs": "2"}
    repository.put_manifest(tag, OCI_MANIFEST, json.dumps(content).encode())
    attached.attach(repository, manifest, b'{"payload":"b"}')
    assert attached.attach(repository, manifest, b'{"payload":"b"}') is False
    attached.attach(repository, manifest, b'{"payload":"c"}')
    assert attached.read(repository, manifest) == [b"{}", b'{"payload":"b"}', b'{"payload":"c"}']
    written = repository.manifest(tag)
    assert written is not None
    assert (written.document["layers"][0], written.document["annotations"]) == (foreign, {"theirs": "2"})


@pytest.mark.skipif(shutil.which("skopeo") is None, reason="the package skopeo is not installed")
def test_another_tool_copies_what_is_attached(repository: Repository, tmp_path: Path) -> None:
    manifest = image(repository)
    attached.attach(repository, manifest, b'{"payload":"a"}')
    source = f"docker://{repository.reference.at(attached.tag(manifest))}"
    words = ["skopeo", "copy", "--src-tls-verify=false", source, f"dir:{tmp_path / 'copy'}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert b'{"payload":"a"}' in [path.read_bytes() for path in (tmp_path / "copy").iterdir()]
