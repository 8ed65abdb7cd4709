"""What a registry is asked about an image, and what is made of its answers."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from recipe.errors import Exit, HallmarkError, Mismatch, Refused, Unreachable
from recipe.image import remote
from recipe.image.reference import Reference
from tests.recipe.image.standin_registry import StandInRegistry

LAYERS = ["sha256:" + "1" * 64]


@pytest.fixture(params=[None, "t0ken"], ids=["open", "with a token"])
def at(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInRegistry]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with StandInRegistry(request.param) as started:
        yield started


def test_the_image_of_a_list_is_the_one_for_the_hardware(at: StandInRegistry) -> None:
    images = {it: at.has_from_now(it, it, LAYERS, {"for": it}, it) for it in ("arm64", "amd64")}
    listed = at.has_list("1", images)
    found = remote.image(f"{at.address}/h:1", "arm64")
    assert found is not None
    assert (found.list_digest, found.image.manifest_digest) == (listed, images["arm64"])
    assert (found.image.labels, found.image.layers) == ({"for": "arm64"}, tuple(LAYERS))
    assert not any("layers" in path for path in at.asked) and len([p for p in at.asked if "/blobs/" in p]) == 1


def test_b8_a_list_without_the_architecture_is_refused(at: StandInRegistry) -> None:
    at.has_list("1", {"amd64": at.has_from_now("x", "x", LAYERS, {})})
    with pytest.raises(Refused, match="is a list with 0 images for linux/arm64"):
        remote.image(f"{at.address}/h:1", "arm64")


def test_what_can_be_no_name_is_not_asked_for() -> None:
    for name in ("a.b:x/h", "UPPER/h", "127.0.0.1:1/h@sha256:12", "h:a:b", "a/../b"):
        with pytest.raises(HallmarkError, match="is not the name of an image") as error:
            remote.image(name, None)
        assert error.value.exit == Exit.USAGE
    for name in ("localhost/h:1", "sha256:" + "a" * 64):
        with pytest.raises(Unreachable, match="is in no registry"):
            remote.image(name, None)


WELL = {"architecture": "amd64", "config": {"Labels": {}}, "rootfs": {"diff_ids": []}}


@pytest.mark.parametrize(
    "sent",
    [
        "<html>",
        "[" * 100_000,
        [1],
        {"config": "x"},
        {"config": {"digest": "../../../v2/other/blobs/x"}},
        {"config": {"digest": "sha256:" + "1" * 64}, "layers": [{"digest": "latest"}]},
        {"config": {"digest": "sha256:" + "1" * 64}, "layers": [{"digest": "sha256:" + "1" * 64, "size": "9"}]},
        {"manifests": [1]},
        {"manifests": [{"platform": {"os": "linux"}}]},
        {"manifests": [{"digest": "sha256:" + "1" * 64, "platform": "linux"}]},
    ],
    ids=lambda sent: str(sent)[:40],
)
def test_a_manifest_that_has_not_its_form_is_refused(at: StandInRegistry, sent: object) -> None:
    at.manifests["1"] = (sent if isinstance(sent, str) else json.dumps(sent)).encode()
    at.malformed.add("1")
    with pytest.raises(Refused, match=r"/h:1 is (not readable at|no JSON object)"):
        remote.image(f"{at.address}/h:1", "amd64")


@pytest.mark.parametrize(
    "sent",
    [
        "<html>",
        [1],
        WELL | {"config": "x"},
        WELL | {"config": {"Labels": ["a"]}},
        WELL | {"config": {"Labels": {"a": 1}}},
    ],
    ids=str,
)
def test_a_configuration_that_has_not_its_form_is_refused(at: StandInRegistry, sent: object) -> None:
    content = (sent if isinstance(sent, str) else json.dumps(sent)).encode()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    at.blobs[digest] = content
    at.manifests["1"] = json.dumps({"config": {"digest": digest}}).encode()
    manifest = f"sha256:{hashlib.sha256(at.manifests['1']).hexdigest()}"
    at.manifests[manifest] = at.manifests["1"]
    at.malformed |= {"1", manifest}
    with pytest.raises(Refused, match=r"the configuration of .* is (not readable at|no JSON object)"):
        remote.image(f"{at.address}/h:1", "amd64")


def test_an_image_that_is_not_there_is_none(at: StandInRegistry) -> None:
    assert remote.image(f"{at.address}/h:nope", "amd64") is None


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("a:1", Reference("docker.io", "library/a", "1")),
        ("a/b", Reference("docker.io", "a/b")),
        ("host:5000/a@sha256:" + "0" * 64, Reference("host:5000", "a", "sha256:" + "0" * 64)),
    ],
)
def test_a_name_is_read_as_docker_reads_it(name: str, place: Reference) -> None:
    assert remote._reference(name) == place


def test_what_was_made_here_is_in_no_registry() -> None:
    with pytest.raises(Unreachable, match="is in no registry"):
        remote.image("localhost/a:1", "amd64")


def test_what_is_not_what_its_digest_says_is_not_believed(at: StandInRegistry) -> None:
    digest = at.has_from_now("1", "x", LAYERS, {})
    at.blobs[at.configuration(digest)] = b"{}"
    with pytest.raises(Mismatch, match="sent another content than sha256:"):
        remote.image(f"{at.address}/h:1", "amd64")


def test_a_registry_that_does_not_answer_is_unreachable() -> None:
    with pytest.raises(Unreachable, match=r"the registry 127\.0\.0\.1:1 does not answer"):
        remote.image("127.0.0.1:1/h:1", "amd64")
