"""DSSE envelopes: sealing a statement with a key, and opening one by the trust list.

Signing, the pre-authentication encoding and verification are securesystemslib's; around them stand the checks that
a strict reader needs (size, one spelling of each byte, no doubled keys), because what is opened comes from others.
"""

import base64
import binascii
import copy
import json
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import Signer  # type: ignore[attr-defined]  # has no __all__

from launch.proof.keys import Trusted, TrustedKey, public_key, verifier

PAYLOAD_TYPE = "application/vnd.in-toto+json"
# A certificate of ten gates with their texts is some ten kilobytes.
LARGEST = 4 * 1024 * 1024

Json = dict[str, Any]


@dataclass(frozen=True)
class Opened:
    """What an envelope holds. The payload is to be believed only when `reasons` is empty; `signers` then maps the ids
    of all trusted keys that vouch for it to their names. `forged`: somebody who is trusted signed something else."""

    payload: Json | None
    signers: dict[str, str]
    reasons: list[str]
    forged: bool = False


def seal(payload: Json, signer: Signer) -> bytes:
    """The envelope of a payload, as JSON text. Errors: ValueError (NaN, infinity)."""
    body = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    envelope = Envelope(body.encode(), PAYLOAD_TYPE, {})
    envelope.sign(signer)
    return (json.dumps(envelope.to_dict(), sort_keys=True, indent=1) + "\n").encode()


def open_(content: bytes, trusted: Trusted, now: datetime | None = None) -> Opened:
    """Open an envelope by the trust list as it counts at `now`; never raises for what is in it."""
    if len(content) > LARGEST:
        return Opened(None, {}, [f"huge input: {len(content)} bytes, at most {LARGEST} are read"])
    try:
        envelope = _envelope(_loads(content, "the envelope"))
        payload = _loads(envelope.payload, "the payload")
    except _Bad as bad:
        return Opened(None, {}, [str(bad)])
    if envelope.payload_type != PAYLOAD_TYPE:
        return Opened(payload, {}, [f"wrong payload type: {envelope.payload_type!r} instead of {PAYLOAD_TYPE!r}"])
    signers, reasons, forged = {}, [], False
    for keyid in envelope.signatures:
        entry = trusted.get(keyid)
        if entry is None:
            reasons.append(f"unknown key: {keyid[:64]} is not trusted here")
        elif entry.revoked:
            reasons.append(f"revoked key: {entry.name} ({keyid[:16]}…), on {entry.revoked}")
        elif entry.expired(now):
            reasons.append(f"expired key: {entry.name} ({keyid[:16]}…), on {entry.expires}")
        elif _signed(envelope, keyid, entry):
            signers[keyid] = entry.name
        else:
            forged = True
            reasons.append(f"bad signature: {entry.name} ({keyid[:16]}…) did not sign this content")
    if signers:
        return Opened(payload, signers, [])
    return Opened(payload, {}, reasons or ["no signature: nobody vouches for this"], forged)


def _signed(envelope: Envelope, keyid: str, entry: TrustedKey) -> bool:
    key = verifier(keyid, public_key(entry.pem.encode(), where=entry.name))
    try:
        envelope.verify([key], 1)
    except UnverifiedSignatureError:
        return False
    return True


class _Bad(Exception):
    """Why the text is no envelope; the message is a reason."""


def _envelope(data: Json) -> Envelope:
    signatures = data.get("signatures")
    if not isinstance(signatures, list) or not all(isinstance(entry, dict) for entry in signatures):
        raise _Bad("bad JSON: the envelope has no list of signatures")
    texts = [data.get("payload"), data.get("payloadType")]
    texts += [entry.get(key) for entry in signatures for key in ("keyid", "sig")]
    if not all(isinstance(text, str) for text in texts):
        raise _Bad("bad JSON: the envelope lacks payload, payloadType, or a signature's keyid and sig")
    _one_spelling(data["payload"], "the payload")
    for entry in signatures:
        _one_spelling(entry["sig"], "a signature")
    if len({entry["keyid"] for entry in signatures}) < len(signatures):
        raise _Bad("bad JSON: one key has signed twice")
    # from_dict takes the signatures' fields out of what it is given
    return Envelope.from_dict(copy.deepcopy(data))


def _one_spelling(encoded: str, what: str) -> None:
    # Lenient decoders let bits of the last character, and with them the file, change without notice.
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise _Bad(f"bad JSON: {what} is not base64") from None
    if base64.b64encode(decoded).decode() != encoded:
        raise _Bad(f"bad JSON: {what} is not in the canonical form of base64")


def _loads(content: bytes, what: str) -> Json:
    try:
        text = content.decode("utf-8")
        data = json.loads(text, object_pairs_hook=_no_doubles, parse_constant=_no_constants, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise _Bad(f"bad JSON: {str(error)[:200] or type(error).__name__}, in {what}") from None
    if not isinstance(data, dict):
        raise _Bad(f"bad JSON: not an object, in {what}")
    return data


def _no_doubles(pairs: list[tuple[str, Any]]) -> Json:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("an object has one key twice")
    return data


def _no_constants(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text[:40]} is larger than numbers are")
    return found
