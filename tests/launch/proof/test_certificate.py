"""A certificate is believed only as far as its signature, its subject and its own raw numbers carry it."""

import base64
import copy
import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]  # has no __all__

from launch.proof import keys
from launch.proof.certificate import sign, verify
from launch.proof.envelope import LARGEST, seal
from launch.proof.gates import GateResult
from launch.proof.judge import judge
from launch.proof.statement import Evidence, build
from recipe.config.gate import definition, parse
from recipe.errors import Exit, Refused

DIGEST, CONFIG, PATCHSET = "a" * 64, "b" * 64, "c" * 64

ACCEPTANCE = {"kind": "acceptance", "summary": "s", "prompts": ["a"], "min-mean-length": 2.5, "min-drafts": 10}
METRIC = {"kind": "metric", "summary": "s", "metric": "hallmark:patchset_info", "labels": {"patchset": "launched"}}


def acceptance_raw(accepted: int) -> dict[str, Any]:
    zero = {"drafts": 0, "draft_tokens": 0, "accepted": 0, "per_position": [0]}
    after = {"drafts": 100, "draft_tokens": 300, "accepted": accepted, "per_position": [accepted]}
    answer = {"text": " a", "tokens": 64, "seconds": 1.5}
    return {"answers": [answer], "before": zero, "after": after, "own_tokens": 64, "served_tokens": 64}


def result(name: str, gate: dict[str, Any], raw: dict[str, Any]) -> GateResult:
    parsed = parse(gate)
    found = judge(parsed, raw, PATCHSET)
    return GateResult(
        name, parsed.kind, found.verdict, found.value, found.bar, found.summary, definition(parsed), raw, 1.0
    )


def evidence(accepted: int = 270, required: tuple[str, ...] = ("acceptance", "patchset")) -> Evidence:
    served = {"samples": [{"labels": {"patchset": PATCHSET}, "value": 1.0}]}
    return Evidence(
        subjects={"registry.example/vllm": DIGEST, "config": CONFIG},
        configuration={"profile": "1" * 64, "argv": "2" * 64, "patch-set": PATCHSET, "model": "3" * 64},
        profile="gb10-nvfp4",
        cluster="two-spark",
        hardware={"kind": "gb10", "nodes": [{"name": "a", "gpu": "NVIDIA GB10"}]},
        vllm="0.33.0",
        required=required,
        gates=[result("acceptance", ACCEPTANCE, acceptance_raw(accepted)), result("patchset", METRIC, served)],
        figures={"prompts": {"count": {"tok_s": 49.68}}},
        started=datetime(2026, 12, 1, 10, 0, tzinfo=UTC),
        finished=datetime(2026, 12, 1, 10, 5, tzinfo=UTC),
    )


@pytest.fixture
def signer(state: Path) -> CryptoSigner:
    keys.new("ops")
    return keys.load_private("ops")


def begins(reasons: list[str], phrase: str) -> bool:
    return any(reason.startswith(phrase) for reason in reasons)


def test_a_signed_certificate_is_valid_for_its_subjects_profile_and_hardware(signer: CryptoSigner) -> None:
    content = sign(build(evidence()), signer)
    found = verify(content, trusted=keys.trusted(), digest=f"sha256:{DIGEST}", profile="gb10-nvfp4", hardware="gb10")
    assert (found.valid, found.reasons) == (True, [])
    assert found.signers == {signer.public_key.keyid: "ops"}
    assert verify(content, trusted=keys.trusted(), digest=CONFIG).digest == f"sha256:{CONFIG}"
    assert found.document() == {
        "valid": True,
        "reasons": [],
        "digest": f"sha256:{DIGEST}",
        "profile": "gb10-nvfp4",
        "gates": {
            "acceptance": {
                "verdict": "pass",
                "value": pytest.approx(3.7),
                "bar": {"min-mean-length": 2.5, "min-rate": None, "min-per-position": {}, "min-drafts": 10},
            },
            "patchset": {
                "verdict": "pass",
                "value": 1.0,
                "bar": {"metric": "hallmark:patchset_info", "labels": {"patchset": PATCHSET}, "equals": None},
            },
        },
        "signers": [{"keyid": signer.public_key.keyid, "name": "ops"}],
        "expires": None,
    }


def test_the_statement_is_an_in_toto_test_result(signer: CryptoSigner) -> None:
    statement = build(evidence())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert statement["subject"][0] == {"name": "registry.example/vllm", "digest": {"sha256": DIGEST}}
    assert statement["predicate"]["result"] == "PASSED"
    assert statement["predicate"]["passedTests"] == ["acceptance", "patchset"]
    assert json.loads(sign(statement, signer))["payloadType"] == "application/vnd.in-toto+json"


@pytest.mark.parametrize(
    ("wrong", "phrase"),
    [
        (evidence(accepted=5), "failed gate: acceptance"),
        (evidence(required=("acceptance", "patchset", "batch")), "missing gates: batch"),
    ],
)
def test_what_did_not_pass_cannot_be_signed(wrong: Evidence, phrase: str, signer: CryptoSigner) -> None:
    statement = build(wrong)
    assert statement["predicate"]["result"] == "FAILED"
    with pytest.raises(Refused) as refused:
        sign(statement, signer)
    assert refused.value.exit == Exit.NOT_DONE
    assert begins([problem.message for problem in refused.value.problems], phrase)


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def apply(statement: dict[str, Any]) -> None:
        at: Any = statement
        *steps, last = [int(step) if step.isdigit() else step for step in path.split("/")]
        for step in steps:
            at = at[step]
        if value is None:
            del at[last]
        else:
            at[last] = value

    return apply


GATE = "predicate/hallmark/gates/acceptance"
LIES = [
    (change("predicate/result", "FAILED"), "result not PASSED"),
    (change("predicate/result", "WARNED"), "result not PASSED"),
    (change("predicate/hallmark/gates", {}), "missing gates"),
    (change(GATE, None), "missing gates: acceptance"),
    (change(f"{GATE}/verdict", "fail"), "failed gate: acceptance"),
    (change(f"{GATE}/verdict", "inconclusive"), "inconclusive gate: acceptance"),
    (change(f"{GATE}/verdict", "skipped"), "bad statement: predicate.hallmark.gates.acceptance.verdict"),
    (change(f"{GATE}/value", 4.9), "disagreement: gate acceptance"),
    (change(f"{GATE}/bar/min-mean-length", 1.2), "disagreement: gate acceptance"),
    (change(f"{GATE}/definition/min-mean-length", 4.5), "disagreement: gate acceptance"),
    (change(f"{GATE}/definition/kind", "batch"), "disagreement: gate acceptance cannot be judged again"),
    (change(f"{GATE}/raw/after/accepted", 5), "disagreement: gate acceptance"),
    (change(f"{GATE}/raw/served_tokens", 99), "disagreement: gate acceptance"),
    (change(f"{GATE}/raw/after", None), "disagreement: gate acceptance cannot be judged again"),
    (change(f"{GATE}/raw", {}), "disagreement: gate acceptance cannot be judged again"),
    (change("predicate/configuration/2/digest/sha256", "d" * 64), "disagreement: gate patchset"),
    (change("predicate/configuration/2", None), "disagreement: gate patchset"),
    (change("predicate/passedTests", ["acceptance"]), "disagreement: passedTests"),
    (change("predicate/failedTests", ["batch"]), "disagreement: passedTests"),
    (change("subject/1/digest/sha256", DIGEST), "duplicate subject"),
    (change("subject/1/name", "registry.example/vllm"), "duplicate subject"),
    (change("predicate/configuration/1/name", "profile"), "duplicate configuration"),
    (change("subject", []), "bad statement: subject"),
    (change("subject/0/digest/sha256", DIGEST + "\n"), "bad statement: subject.0.digest.sha256"),
    (change("_type", "https://in-toto.io/Statement/v0.1"), "bad statement: _type"),
    (change("predicateType", "https://slsa.dev/provenance/v1"), "bad statement: predicateType"),
    (change("predicate/hallmark/schema", 2), "unknown schema: 2"),
    (change("predicate/hallmark/schema", True), "unknown schema: True"),
    (change("predicate/hallmark/schema", None), "unknown schema: None"),
    (change("predicate/hallmark/hardware", {}), "bad statement: predicate.hallmark.hardware.kind"),
    (change("predicate/hallmark/finished", "soon"), "bad statement: predicate.hallmark.finished"),
    (change("predicate/hallmark", None), "bad statement: predicate.hallmark"),
]


@pytest.mark.parametrize(("lie", "phrase"), LIES)
def test_a_trusted_key_does_not_make_a_contradiction_true(
    lie: Callable[[dict[str, Any]], None], phrase: str, signer: CryptoSigner
) -> None:
    statement = build(evidence())
    lie(statement)
    found = verify(seal(statement, signer), trusted=keys.trusted())
    assert not found.valid
    assert begins(found.reasons, phrase), found.reasons
    with pytest.raises(Refused):
        sign(statement, signer)


@pytest.mark.parametrize(
    ("asked", "phrase"),
    [
        ({"digest": "sha256:" + "d" * 64}, "wrong digest"),
        ({"digest": ""}, "wrong digest"),
        ({"profile": "h200-fp8-dspark"}, "wrong profile"),
        ({"hardware": "h200"}, "wrong hardware"),
    ],
)
def test_a_true_certificate_about_something_else_is_not_valid(
    asked: dict[str, Any], phrase: str, signer: CryptoSigner
) -> None:
    found = verify(sign(build(evidence()), signer), trusted=keys.trusted(), **asked)
    assert not found.valid
    assert begins(found.reasons, phrase)


def test_the_word_of_an_unknown_a_revoked_and_another_key_does_not_count(signer: CryptoSigner) -> None:
    content = sign(build(evidence()), signer)
    assert begins(verify(content, trusted={}).reasons, "unknown key")
    other = keys.new("other")
    entries = keys.trusted()
    swapped = {signer.public_key.keyid: entries[other]}
    assert begins(verify(content, trusted=swapped).reasons, "bad signature")
    keys.revoke(signer.public_key.keyid)
    assert begins(verify(content, trusted=keys.trusted()).reasons, "revoked key: ops")


def test_one_trusted_signature_among_others_is_enough(signer: CryptoSigner) -> None:
    keys.new("other")
    envelope = json.loads(sign(build(evidence()), signer))
    again = json.loads(sign(build(evidence()), keys.load_private("other")))
    envelope["signatures"] = again["signatures"] + envelope["signatures"]
    trusted = {keyid: entry for keyid, entry in keys.trusted().items() if entry.name == "ops"}
    assert verify(json.dumps(envelope).encode(), trusted=trusted).valid


def with_payload(envelope: dict[str, Any], payload: bytes) -> dict[str, Any]:
    return {**envelope, "payload": base64.b64encode(payload).decode()}


ENVELOPES: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda e: {**e, "payloadType": "text/plain"}, "wrong payload type"),
    (lambda e: {**e, "payloadType": 1}, "bad JSON"),
    (lambda e: {**e, "signatures": []}, "no signature"),
    (lambda e: {**e, "signatures": e["signatures"] * 2}, "bad JSON: one key has signed twice"),
    (lambda e: {**e, "signatures": "x"}, "bad JSON"),
    (lambda e: {**e, "signatures": [{"keyid": "x"}]}, "bad JSON"),
    (lambda e: {**e, "signatures": [{**e["signatures"][0], "sig": "AAAA"}]}, "bad signature"),
    (lambda e: {**e, "signatures": [{**e["signatures"][0], "sig": "ÄÄÄÄ"}]}, "bad JSON"),
    (lambda e: {**e, "signatures": [{**e["signatures"][0], "keyid": "ä" * 1000}]}, "unknown key"),
    (lambda e: {**e, "payload": e["payload"].replace("e", "f", 1)}, "bad"),
    (lambda e: {**e, "payload": "*"}, "bad JSON"),
    (lambda e: with_payload(e, b"[]"), "bad JSON: not an object"),
    (lambda e: with_payload(e, b'{"a": 1, "a": 2}'), "bad JSON: an object has one key twice"),
    (lambda e: with_payload(e, b'{"a": NaN}'), "bad JSON: NaN"),
    (lambda e: with_payload(e, b'{"a": ' * 100_000), "bad JSON"),
    (lambda e: with_payload(e, b"\xff"), "bad JSON"),
    (lambda e: [e], "bad JSON: not an object"),
]


@pytest.mark.parametrize(("break_", "phrase"), ENVELOPES)
def test_a_broken_envelope_is_refused_by_name(
    break_: Callable[[dict[str, Any]], Any], phrase: str, signer: CryptoSigner
) -> None:
    envelope = json.loads(sign(build(evidence()), signer))
    found = verify(json.dumps(break_(copy.deepcopy(envelope))).encode(), trusted=keys.trusted())
    assert not found.valid
    assert begins(found.reasons, phrase), found.reasons


@pytest.mark.parametrize("content", [b"", b"null", b"{", b"\x00\xff", b"[" * 100_000, b"9" * 10_000])
def test_a_file_that_is_no_envelope_is_refused_without_an_exception(content: bytes) -> None:
    found = verify(content, trusted={})
    assert not found.valid
    assert begins(found.reasons, "bad JSON")


def test_a_huge_file_is_not_parsed() -> None:
    assert begins(verify(b"[" * (LARGEST + 1), trusted={}).reasons, "huge input")


def test_every_other_last_character_of_a_signature_is_noticed(signer: CryptoSigner) -> None:
    envelope = json.loads(sign(build(evidence()), signer))
    sig = envelope["signatures"][0]["sig"]
    assert sig.endswith("==")
    for character in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_":
        if character != sig[-3]:
            envelope["signatures"][0]["sig"] = sig[:-3] + character + "=="
            assert not verify(json.dumps(envelope).encode(), trusted=keys.trusted()).valid


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255), which=st.booleans())
def test_one_changed_byte_in_payload_or_signature_makes_it_invalid(
    place: int, flip: int, which: bool, signed: tuple[bytes, keys.Trusted]
) -> None:
    content, trusted = signed
    envelope = json.loads(content)
    holder, key = (envelope, "payload") if which else (envelope["signatures"][0], "sig")
    data = bytearray(base64.b64decode(holder[key]))
    data[place % len(data)] ^= flip
    holder[key] = base64.b64encode(bytes(data)).decode()
    assert not verify(json.dumps(envelope).encode(), trusted=trusted).valid


@pytest.fixture
def signed(signer: CryptoSigner) -> tuple[bytes, keys.Trusted]:
    return sign(build(evidence()), signer), keys.trusted()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl program")
def test_openssl_alone_verifies_the_signature(signer: CryptoSigner, state: Path, tmp_path: Path) -> None:
    envelope = json.loads(sign(build(evidence()), signer))
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    pae = tmp_path / "pae.bin"
    pae.write_bytes(b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload))
    (tmp_path / "sig.bin").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(state / "keys" / "ops.pub"), "-rawin"]
    command += ["-in", str(pae), "-sigfile", str(tmp_path / "sig.bin")]
    assert subprocess.run(command, capture_output=True).returncode == 0
    pae.write_bytes(pae.read_bytes().replace(b"PASSED", b"passed"))
    assert subprocess.run(command, capture_output=True).returncode != 0


def test_securesystemslib_verifies_the_envelope_by_itself(signer: CryptoSigner) -> None:
    envelope = Envelope.from_dict(json.loads(sign(build(evidence()), signer)))
    assert signer.public_key.keyid in envelope.verify([signer.public_key], 1)


def test_a_figure_that_json_cannot_hold_is_an_error_and_not_a_certificate(signer: CryptoSigner) -> None:
    statement = build(evidence())
    statement["predicate"]["hallmark"]["figures"] = {"tok_s": float("nan")}
    with pytest.raises(ValueError, match="JSON"):
        sign(statement, signer)
