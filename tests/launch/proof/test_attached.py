"""Certificates beside an image in a real registry, and the commands that read them there."""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from google.protobuf import json_format
from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult as ResultPb
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementPb
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]  # has no __all__

from launch.ledger.certificates import of_repository
from launch.nodes.image import StagedImage, staged
from launch.plan.place import Place
from launch.proof import attached, keys
from launch.proof.certificate import sign
from launch.proof.statement import TEST_RESULT, build
from recipe.errors import Unreachable
from recipe.image.reference import Reference
from recipe.image.registry import OCI_CONFIG, OCI_MANIFEST, Repository
from scripts.engines import registry
from scripts.engines.newer import COSIGN, newer
from scripts.engines.packages import program
from tests.conftest import possible
from tests.launch.proof.test_certificate import DIGEST, evidence
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


def test_only_with_other_peoples_tools_a_certificate_is_fetched_verified_and_read(
    repository: Repository, state: Path, tmp_path: Path
) -> None:
    """skopeo finds it by the tag scheme of cosign, openssl and securesystemslib verify it, and the in-toto library
    reads the statement."""
    with possible():
        skopeo = program("skopeo", "skopeo")
    manifest = image(repository)
    keys.new("ops")
    attached.attach(repository, manifest, sign(build(evidence()), keys.signer("ops")))
    public = state / "keys" / "ops.pub"

    def ask(*words: str) -> str:
        done = subprocess.run([skopeo, *words], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = f"docker://{repository.reference.repository}"
    tag = f"sha256-{manifest.removeprefix('sha256:')}.att"
    assert tag in json.loads(ask("list-tags", "--tls-verify=false", where))["Tags"]
    [layer] = json.loads(ask("inspect", "--raw", "--tls-verify=false", f"{where}:{tag}"))["layers"]
    ask("copy", "--src-tls-verify=false", f"{where}:{tag}", f"dir:{tmp_path / 'copy'}")
    envelope = json.loads((tmp_path / "copy" / layer["digest"].removeprefix("sha256:")).read_bytes())

    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"].encode()
    (tmp_path / "pae").write_bytes(b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload))
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    words = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(public), "-rawin"]
    words += ["-in", str(tmp_path / "pae"), "-sigfile", str(tmp_path / "sig")]
    assert "Verified Successfully" in subprocess.run(words, check=True, capture_output=True, text=True).stdout

    keyid = envelope["signatures"][0]["keyid"]
    key = SSlibKey.from_crypto(load_pem_public_key(public.read_bytes()), keyid=keyid)
    assert set(Envelope.from_dict(json.loads(json.dumps(envelope))).verify([key], 1)) == {keyid}

    statement = Statement.copy_from_pb(json_format.Parse(payload, StatementPb()))
    statement.validate()
    assert statement.pb.subject[0].digest["sha256"] == DIGEST
    assert statement.pb.predicate_type == "https://in-toto.io/attestation/test-result/v0.1"
    predicate = json_format.MessageToDict(statement.pb.predicate)
    result = json_format.ParseDict(predicate, ResultPb(), ignore_unknown_fields=True)
    assert (result.result, list(result.passed_tests)) == ("PASSED", ["acceptance", "patchset"])
    assert {it.name for it in result.configuration} == {"profile", "argv", "patch-set", "model"}


def named(repository: Repository, tag: str, architecture: str) -> tuple[str, str]:
    """An image of its own under a tag; gives the digests of its manifest and its configuration."""
    config = repository.put_blob(OCI_CONFIG, json.dumps({"architecture": architecture, "os": "linux"}).encode())
    content = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": []}
    return repository.put_manifest(tag, OCI_MANIFEST, json.dumps(content).encode()), config["digest"]


@pytest.fixture
def cosign(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs the real program, which must need nothing but this machine."""
    with possible():
        binary = newer(COSIGN)
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:1")
    variables = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "COSIGN_PASSWORD": "", **nowhere}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        argv = [str(binary), *words]
        return subprocess.run(argv, check=False, capture_output=True, text=True, env=variables, cwd=tmp_path)

    return run


def test_cosign_itself_verifies_a_certificate_and_refuses_what_was_done_to_it(
    repository: Repository, state: Path, tmp_path: Path, cosign: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    proven, _ = named(repository, "one", "amd64")
    other, _ = named(repository, "two", "arm64")
    for name in ("ops", "stranger"):
        keys.new(name)
    # As `certify` writes them: the manifest and the configuration.
    subjects = {repository.reference.repository: proven.removeprefix("sha256:"), "config": "f" * 64}
    envelope = sign(build(replace(evidence(), subjects=subjects)), keys.signer("ops"))
    attached.attach(repository, proven, envelope)

    def verify(digest: str, key: Path, kind: str = TEST_RESULT) -> "subprocess.CompletedProcess[str]":
        words = ("--key", str(key), "--insecure-ignore-tlog", "--type", kind, "--allow-http-registry")
        return cosign("verify-attestation", *words, repository.reference.at(digest))

    ops, stranger = (state / "keys" / f"{name}.pub" for name in ("ops", "stranger"))
    good = verify(proven, ops)
    assert good.returncode == 0, good.stderr
    assert "The signatures were verified against the specified public key" in good.stderr
    assert json.loads(good.stdout)["payload"] == json.loads(envelope)["payload"]

    assert "signatures do not match" in (refused := verify(proven, stranger)).stderr and refused.returncode
    # The same attachment beside another image.
    copied = repository.manifest(attached.tag(proven))
    assert copied is not None
    repository.put_manifest(attached.tag(other), OCI_MANIFEST, copied.content)
    assert "digest" in (refused := verify(other, ops)).stderr and refused.returncode
    # A byte of what was signed is another one.
    forged = json.loads(envelope)
    forged["payload"] = base64.b64encode(base64.b64decode(forged["payload"]).replace(b"PASSED", b"FAILED")).decode()
    third, _ = named(repository, "three", "ppc64le")
    attached.attach(repository, third, json.dumps(forged).encode())
    assert verify(third, ops).returncode

    # What cosign attaches beside it stays, and so does ours.
    assert cosign("generate-key-pair").returncode == 0
    (tmp_path / "said.json").write_text('{"checked": "by hand"}')
    words = ("--key", "cosign.key", "--tlog-upload=false", "--type", "custom", "--predicate", "said.json")
    made = cosign("attest", *words, "--yes", "--allow-http-registry", repository.reference.at(proven))
    assert made.returncode == 0, made.stderr
    assert attached.read(repository, proven)[0] == envelope and len(attached.read(repository, proven)) == 2
    again = sign(build(replace(evidence(), subjects=subjects, cluster="another")), keys.signer("ops"))
    attached.attach(repository, proven, again)
    assert verify(proven, ops).stdout.count('"payload"') == 2
    assert verify(proven, tmp_path / "cosign.pub", "custom").returncode == 0


def test_all_certificates_of_a_repository_are_listed_and_a_copy_beside_another_image_is_worth_nothing(
    repository: Repository, state: Path
) -> None:
    keys.new("ops")
    proven, _ = named(repository, "one", "amd64")
    other, _ = named(repository, "two", "arm64")
    subjects = {repository.reference.repository: proven.removeprefix("sha256:")}
    attached.attach(repository, proven, sign(build(replace(evidence(), subjects=subjects)), keys.signer("ops")))
    assert sorted(repository.tags()) == sorted(["one", "two", attached.tag(proven)])
    copied = repository.manifest(attached.tag(proven))
    assert copied is not None
    repository.put_manifest(attached.tag(other), OCI_MANIFEST, copied.content)
    listed = {it.images[0].rpartition("@")[2]: it.found for it in of_repository(repository.reference)}
    assert set(listed) == {proven, other}
    assert listed[proven].valid
    assert listed[other].reasons == [f"wrong digest: it is about {proven}, not {other}"]
    assert of_repository(replace(repository.reference, path="nothing/there")) == []


def test_an_image_is_found_by_the_digest_it_was_certified_under_when_all_its_tags_were_moved(
    repository: Repository,
) -> None:
    """B5: tags are words, the digest wins."""
    proven, config = named(repository, "latest", "amd64")
    name = repository.reference.at("latest")
    short = config.removeprefix("sha256:")
    where = replace(repository.reference, name=None)
    assert staged(name, short, (), where).published() == proven
    named(repository, "latest", "arm64")
    named(repository, short[:12], "arm64")
    assert staged(name, short, (), where).published() is None
    assert staged(name, short, (), where, repository.reference.at(proven)).published() == proven
    elsewhere = replace(repository.reference, path="elsewhere").at(proven)
    assert staged(name, short, (), where, elsewhere).published() is None


def test_what_neither_a_node_nor_the_registry_has_is_known_before_anything_stops(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B7: the nodes are StandIns that lack the image, the registry is real."""
    places = (Place("a", "local"), Place("b", "me@b"))
    monkeypatch.setattr(StagedImage, "lacking", lambda self: list(places))
    monkeypatch.setattr("launch.nodes.image._here", lambda reference: None)
    proven, config = named(repository, "latest", "amd64")
    known, short = repository.reference.at(proven), config.removeprefix("sha256:")
    assert staged("x:1", short, places, repository.reference, known).unrestorable() == []
    assert staged("x:1", "0" * 64, places, repository.reference).unrestorable() == [
        f"sha256:{'0' * 64} is neither here nor on a, b"
    ]
    [told] = staged("x:1", short, places, replace(repository.reference, host="127.0.0.1:1")).unrestorable()
    assert told.startswith(f"{config} is neither here nor on a, b, and the registry 127.0.0.1:1 does not answer")

    # Another node has it, and only through the registry could the first one get it.
    monkeypatch.setattr(StagedImage, "lacking", lambda self: list(places[:1]))
    assert staged("x:1", "0" * 64, places, repository.reference).unrestorable() == []
    down = staged("x:1", "0" * 64, places, replace(repository.reference, host="127.0.0.1:1"))
    [told] = down.unrestorable()
    assert "does not answer" in told
    assert told.endswith(" — or bring it by hand: `docker save` on b, `docker load` here")
    with pytest.raises(Unreachable, match="does not answer"):
        down.stage(lambda line: None)
