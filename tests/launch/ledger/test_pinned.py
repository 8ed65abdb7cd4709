"""Images for engines that pull them themselves: by digest, with the certificate beside them in a real registry."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launch.ledger.pinned import pinned
from launch.plan.group import Subject
from launch.proof import attached, keys
from launch.proof.certificate import sign
from launch.proof.statement import build
from recipe.config.check import Checked, check_cluster
from recipe.config.paths import CHECKOUT
from recipe.errors import HallmarkError, Refused, Unreachable
from recipe.image.reference import Reference
from recipe.image.registry import Repository
from scripts.engines import registry
from tests.conftest import possible
from tests.launch.proof.test_attached import image
from tests.launch.proof.test_certificate import evidence
from tests.standin.world import free_ports


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    [port] = free_ports(1)
    with possible():
        started = registry.start(tmp_path_factory.mktemp("registry"), port)
    with Repository(Reference(started.address, "vllm")) as made:
        yield made
    started.end()


@pytest.fixture(scope="module")
def checked() -> Checked:
    return check_cluster(CHECKOUT, "kubernetes.example")


@pytest.mark.docker
def test_a_tag_becomes_its_digest_and_only_a_certificate_that_holds_is_named(
    repository: Repository, checked: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALLMARK_STATE", str(tmp_path))
    keys.new("ops")
    said: list[str] = []
    manifest = image(repository)
    subject = Subject("image", repository.reference.at("one"), None)
    found, certificate = pinned(checked, subject, said.append)
    assert (found.reference, certificate) == (repository.reference.at(manifest), None)
    assert "has no certificate that holds here" in said.pop()

    about = replace(evidence(), subjects={"image": manifest.removeprefix("sha256:")})
    good = sign(build(about), keys.load_private("ops"))
    other = sign(build(replace(about, profile="another")), keys.load_private("ops"))
    for envelope in (good, other):
        attached.attach(repository, manifest, envelope)
    for reference in (subject.reference, found.reference):
        again, certificate = pinned(checked, Subject("image", reference, None), said.append)
        assert (again.reference, certificate) == (found.reference, hashlib.sha256(good).hexdigest())
    assert said == []

    monkeypatch.setenv("HALLMARK_STATE", str(tmp_path / "stranger"))
    assert pinned(checked, subject, said.append)[1] is None
    assert "wrong profile" in said[0] or "key" in said[0]


@pytest.mark.docker
def test_a_tag_that_is_not_there_is_refused(repository: Repository, checked: Checked) -> None:
    with pytest.raises(Refused, match=r"there is no image .*/vllm:nothing — `hallmark image PROFILE --push"):
        pinned(checked, Subject("image", repository.reference.at("nothing"), None), print)


def test_a_registry_that_does_not_answer_matters_only_for_a_tag(checked: Checked) -> None:
    [port] = free_ports(1)
    said: list[str] = []
    there = Reference(f"127.0.0.1:{port}", "vllm")
    with pytest.raises(Unreachable):
        pinned(checked, Subject("image", there.at("one"), None), said.append)
    digest = there.at("sha256:" + "a" * 64)
    assert pinned(checked, Subject("image", digest, None), said.append)[0].reference == digest
    assert "does not answer" in said[0]


def test_a_name_without_a_registry_is_not_taken(checked: Checked) -> None:
    with pytest.raises(HallmarkError, match=r"kubernetes.example.yaml:\d+: lws pulls images by their digest"):
        pinned(checked, Subject("image", "hallmark:x", None), print)
