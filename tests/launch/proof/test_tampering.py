"""Whatever byte of a signed certificate is changed, it is refused, and what was changed is named."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launch.proof import keys
from launch.proof.certificate import sign, verify
from launch.proof.statement import build
from tests.launch.proof.test_certificate import evidence


@pytest.fixture
def signed(state: object) -> tuple[dict[str, Any], keys.Trusted]:
    keys.new("ops")
    return json.loads(sign(build(evidence()), keys.signer("ops"))), keys.trusted()


def parts(statement: dict[str, Any]) -> Iterator[tuple[str, object]]:
    predicate = statement["predicate"]
    own = predicate["hallmark"]
    yield from ((name, statement[name]) for name in ("subject",))
    yield from ((name, predicate[name]) for name in ("configuration", "result", "passedTests"))
    yield from (
        (name, own[name]) for name in ("profile", "cluster", "hardware", "vllm", "gates", "figures", "finished")
    )


def spans(payload: bytes) -> Iterator[tuple[str, range]]:
    """Where each part stands in the payload."""
    for name, value in parts(json.loads(payload)):
        key = json.dumps(name).encode() + b":"
        text = key + json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        start = payload.index(text) + len(key)
        yield name, range(start, start + len(text) - len(key))


def reasons(envelope: dict[str, Any], payload: bytes, trusted: keys.Trusted) -> list[str]:
    changed = {**envelope, "payload": base64.b64encode(payload).decode()}
    found = verify(json.dumps(changed).encode(), trusted=trusted)
    assert not found.valid
    return found.reasons


def readable(payload: bytes) -> bool:
    try:
        data = json.loads(payload)
    except ValueError:
        return False
    return isinstance(data, dict)


def test_a_changed_byte_of_each_part_is_refused_and_the_part_is_named(
    signed: tuple[dict[str, Any], keys.Trusted],
) -> None:
    envelope, trusted = signed
    payload = base64.b64decode(envelope["payload"])
    named: set[str] = set()
    for name, span in spans(payload):
        for place in span:
            changed = bytearray(payload)
            # Letters and digits stay such, so that most of it can still be read.
            changed[place] ^= 1
            told = reasons(envelope, bytes(changed), trusted)
            if readable(bytes(changed)):
                assert any(it.startswith("changed: ") and name in it for it in told), (name, place, told)
                named.add(name)
            else:
                assert told[0].startswith("bad JSON: ") and told[0].endswith("in the payload"), told
    assert named == {name for name, _ in parts(json.loads(payload))}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
def test_any_changed_byte_of_the_payload_is_refused_by_name(
    place: int, flip: int, signed: tuple[dict[str, Any], keys.Trusted]
) -> None:
    envelope, trusted = signed
    payload = bytearray(base64.b64decode(envelope["payload"]))
    payload[place % len(payload)] ^= flip
    told = "; ".join(reasons(envelope, bytes(payload), trusted))
    assert "payload" in told or "changed: " in told


def test_every_changed_byte_of_the_signature_is_refused_and_said_to_be_the_signature(
    signed: tuple[dict[str, Any], keys.Trusted],
) -> None:
    envelope, trusted = signed
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    for place in range(len(signature)):
        for bit in (1, 128):
            changed = bytearray(signature)
            changed[place] ^= bit
            text = base64.b64encode(bytes(changed)).decode()
            document = {**envelope, "signatures": [{**envelope["signatures"][0], "sig": text}]}
            found = verify(json.dumps(document).encode(), trusted=trusted)
            assert not found.valid
            assert found.reasons[0].startswith("bad signature: ops")
            assert found.reasons[1].startswith("changed: the signature")


def test_checksums_that_were_changed_too_do_not_help(signed: tuple[dict[str, Any], keys.Trusted]) -> None:
    from launch.proof import checksums

    envelope, trusted = signed
    statement = json.loads(base64.b64decode(envelope["payload"]))
    statement["predicate"]["hallmark"]["figures"] = {"tok_s": 1000}
    statement["predicate"]["hallmark"]["checksums"] = checksums.of(statement)
    told = reasons(envelope, json.dumps(statement).encode(), trusted)
    assert told[0].startswith("bad signature: ops")
    del statement["predicate"]["hallmark"]["checksums"]
    assert reasons(envelope, json.dumps(statement).encode(), trusted)[1] == "changed: the payload, or the signature"


@pytest.mark.parametrize("place", range(0, 64, 3))
def test_a_changed_byte_of_the_key_or_type_is_refused_by_name(
    place: int, signed: tuple[dict[str, Any], keys.Trusted]
) -> None:
    envelope, trusted = signed
    [signature] = envelope["signatures"]
    digits = list(signature["keyid"])
    digits[place] = "0" if digits[place] != "0" else "1"
    other = {**envelope, "signatures": [{**signature, "keyid": "".join(digits)}]}
    assert verify(json.dumps(other).encode(), trusted=trusted).reasons[0].startswith("unknown key: ")
    kind = envelope["payloadType"]
    at = place % len(kind)
    typed = {**envelope, "payloadType": kind[:at] + chr(ord(kind[at]) ^ 1) + kind[at + 1 :]}
    assert verify(json.dumps(typed).encode(), trusted=trusted).reasons[0].startswith("wrong payload type: ")


@pytest.mark.parametrize("value", ["1" * 400, "-1", "0", "1e300", "1e999", '"x"', "[]", "null"])
def test_any_number_of_a_gate_may_be_anything(value: str, signed: tuple[dict[str, Any], keys.Trusted]) -> None:
    """A registry may hold anything beside an image, and `launch` reads it: what cannot be judged again is refused."""
    envelope, trusted = signed
    payload = base64.b64decode(envelope["payload"])
    numbers = list(re.finditer(rb"(?<=[:\[,])-?[0-9]+(\.[0-9]+)?(?=[,}\]])", payload))
    assert len(numbers) > 5
    for found in numbers:
        if found[0].decode() != value:
            assert reasons(envelope, payload[: found.start()] + value.encode() + payload[found.end() :], trusted)
