"""Ed25519 keys of this user, and the list of keys whose certificates count.

Owns STATE/keys: `NAME.key` (PKCS8 PEM, mode 0600), `NAME.pub` (SubjectPublicKeyInfo PEM) and `trusted.json`. A
key's id is the sha256 (hex) of its SubjectPublicKeyInfo in DER.
"""

import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from securesystemslib.signer import CryptoSigner, SSlibKey  # type: ignore[attr-defined]  # has no __all__

from recipe.config import paths
from recipe.errors import HallmarkError, Mismatch, Refused

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_PREFIX = re.compile(r"[0-9a-f]{8,64}")


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class TrustedKey:
    """One entry of the trust list. `added` and `revoked` are UTC times (ISO 8601), `pem` is the public key."""

    name: str
    pem: str
    added: str
    revoked: str | None = None


Trusted = Mapping[str, TrustedKey]
"""The trust list: key id -> entry, revoked ones included."""

_LIST = TypeAdapter(dict[str, TrustedKey])


def new(name: str) -> str:
    """Make a key pair and trust it; the key's id. Never overwrites. Errors: HallmarkError."""
    if not _NAME.fullmatch(name):
        raise HallmarkError(f"{name!r} is no name for a key", hint="use a-z, 0-9, '.', '_' and '-', such as ops-1")
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    keyid, pem = _identify(private.public_key())
    files = ((f"{name}.key", secret, 0o600), (f"{name}.pub", pem.encode(), 0o644))
    with _editing() as entries:
        for path in (_folder() / file for file, _, _ in files):
            if path.exists():
                raise HallmarkError("is there already", where=str(path), hint="choose another name")
        try:
            for file, content, mode in files:
                with os.fdopen(os.open(_folder() / file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
                    out.write(content)
        except OSError as error:
            # Both names were free a moment ago, so what is there now is half of this key.
            for file, _, _ in files:
                (_folder() / file).unlink(missing_ok=True)
            raise Refused(
                f"the key cannot be written: {error.strerror}", where=str(_folder() / f"{name}.key")
            ) from None
        entries[keyid] = TrustedKey(name, pem, _now())
    return keyid


def load_private(name: str) -> CryptoSigner:
    """Load the private key NAME for signing.

    Errors: HallmarkError (there is none, it is not an Ed25519 key, others may read it), Refused (it is revoked).
    """
    path = _folder() / f"{name}.key"
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read()
    except OSError as error:
        hint = f"`hallmark key new {name}` makes one"
        raise HallmarkError(f"cannot be read: {error.strerror}", where=str(path), hint=hint) from None
    if mode & 0o077:
        raise HallmarkError(
            f"others may read or change this private key (mode {mode:04o})",
            where=str(path),
            hint=f"chmod 600 {path}, and make a new key if somebody did",
        )
    try:
        private = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise HallmarkError("is not an Ed25519 private key without a passphrase (PKCS8 PEM)", where=str(path))
    keyid, _ = _identify(private.public_key())
    entry = trusted().get(keyid)
    if entry and entry.revoked:
        raise Refused(f"the key {name} was revoked on {entry.revoked}", hint="`hallmark key new` makes another")
    return CryptoSigner(private, verifier(keyid, private.public_key()))


def trusted() -> dict[str, TrustedKey]:
    """The trust list; empty when there is none yet. Errors: HallmarkError, Mismatch (an id is not its key's)."""
    path = _trust_file()
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise HallmarkError(f"cannot be read: {error.strerror}", where=str(path)) from None
    try:
        entries = _LIST.validate_json(content)
    except ValidationError:
        hint = "restore it, or move it away and trust the keys again"
        raise HallmarkError("is not a list of trusted keys", where=str(path), hint=hint) from None
    for keyid, entry in entries.items():
        if _identify(public_key(entry.pem.encode(), where=str(path)))[0] != keyid:
            hint = "somebody edited the list; trust the keys again from their own files"
            raise Mismatch(f"the entry {keyid[:16]}… ({entry.name}) holds another key", where=str(path), hint=hint)
    return entries


def trust(path: Path) -> str:
    """Trust the public key in a PEM file, under the file's name; its id. Errors: HallmarkError, Refused."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise HallmarkError(f"cannot be read: {error.strerror}", where=str(path)) from None
    keyid, pem = _identify(public_key(content, where=str(path)))
    with _editing() as entries:
        known = entries.get(keyid)
        if known and known.revoked:
            raise Refused(f"this key was revoked on {known.revoked}", where=str(path), hint="trust another key")
        entries[keyid] = known or TrustedKey(path.stem, pem, _now())
    return keyid


def revoke(keyid: str) -> str:
    """Take a key's word back for good, for old certificates too; the full id.

    `keyid` may be cut to its first eight characters or more. Errors: HallmarkError.
    """
    with _editing() as entries:
        found = [known for known in entries if known.startswith(keyid)] if _PREFIX.fullmatch(keyid) else []
        if len(found) != 1:
            what = "fits several trusted keys" if found else "is no trusted key"
            raise HallmarkError(f"{keyid!r} {what}", hint="`hallmark key list` shows their ids")
        entry = entries[found[0]]
        entries[found[0]] = entry if entry.revoked else replace(entry, revoked=_now())
    return found[0]


def public_key(pem: bytes, *, where: str) -> Ed25519PublicKey:
    """Read a public key. Errors: HallmarkError; a private key is refused too, it is not to be passed around."""
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        hint = "give the .pub file of a key that `hallmark key new` made"
        raise HallmarkError("is not an Ed25519 public key (PEM)", where=where, hint=hint)
    return key


def verifier(keyid: str, key: Ed25519PublicKey) -> SSlibKey:
    """The key as securesystemslib knows it, under our id."""
    return SSlibKey.from_crypto(key, keyid=keyid)


def _identify(key: Ed25519PublicKey) -> tuple[str, str]:
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    der = key.public_bytes(serialization.Encoding.DER, spki)
    return hashlib.sha256(der).hexdigest(), key.public_bytes(serialization.Encoding.PEM, spki).decode()


@contextmanager
def _editing() -> Iterator[dict[str, TrustedKey]]:
    """The trust list for changing; written back whole, by rename, under a lock, when the block ends well."""
    _folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (_folder() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = trusted()
        yield entries
        content = json.dumps({keyid: asdict(entry) for keyid, entry in entries.items()}, indent=2)
        beside = _trust_file().with_suffix(".new")
        beside.write_text(content + "\n", encoding="utf-8")
        beside.replace(_trust_file())


def _folder() -> Path:
    return paths.state() / "keys"


def _trust_file() -> Path:
    return _folder() / "trusted.json"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
