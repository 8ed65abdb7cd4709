"""Ed25519 keys of this user, and the list of keys whose certificates count.

Owns STATE/keys: `NAME.key` (PKCS8 PEM, mode 0600) or `NAME.agent` (a program that signs), `NAME.pub`
(SubjectPublicKeyInfo PEM) and `trusted.json`. A key's id is the sha256 (hex) of its SubjectPublicKeyInfo in DER.
"""

import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from securesystemslib.signer import CryptoSigner, Signer, SSlibKey  # type: ignore[attr-defined]  # has no __all__

from launch.proof import agent, dates
from recipe.config import paths
from recipe.errors import HallmarkError, Mismatch, Refused

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_PREFIX = re.compile(r"[0-9a-f]{8,64}")


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without its zone")
    return text


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class TrustedKey:
    """One entry of the trust list. `added`, `revoked` and `expires` are UTC times (ISO 8601), `pem` is the public
    key."""

    name: str
    pem: str
    added: str
    revoked: str | None = None
    expires: Annotated[str, AfterValidator(_moment)] | None = None

    def expired(self, now: datetime | None = None) -> bool:
        """Whether its word no longer counts because its time is over."""
        return self.expires is not None and dates.past(datetime.fromisoformat(self.expires), now)


Trusted = Mapping[str, TrustedKey]
"""The trust list: key id -> entry, revoked ones included."""

_LIST = TypeAdapter(dict[str, TrustedKey])


def new(name: str, expires: datetime | None = None) -> str:
    """Make a key pair and trust it until `expires`; the key's id. Never overwrites. Errors: HallmarkError."""
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return _add(name, private.public_key(), f"{name}.key", secret, expires)


def new_agent(name: str, public: Path, command: Sequence[str], expires: datetime | None = None) -> str:
    """Let a program sign as NAME, and trust its public key (a PEM file); the key's id. The program signs once to see
    that it can.

    Errors: HallmarkError; Refused when it cannot sign for this key.
    """
    key = public_key(_content(public), where=str(public))
    found = agent.AgentSigner(command, verifier(_identify(key)[0], key), "--agent")
    found.sign(b"hallmark: may this key be used?")
    return _add(name, key, f"{name}.agent", agent.words(command), expires)


def _add(name: str, key: Ed25519PublicKey, file: str, secret: bytes, expires: datetime | None) -> str:
    if not _NAME.fullmatch(name):
        raise HallmarkError(f"{name!r} is no name for a key", hint="use a-z, 0-9, '.', '_' and '-', such as ops-1")
    keyid, pem = _identify(key)
    files = ((file, secret, 0o600), (f"{name}.pub", pem.encode(), 0o644))
    with _editing() as entries:
        for path in (_folder() / f"{name}{kind}" for kind in (".key", ".agent", ".pub")):
            if path.exists():
                raise HallmarkError("is there already", where=str(path), hint="choose another name")
        _not_revoked(entries.get(keyid), name)
        try:
            for file, content, mode in files:
                with os.fdopen(os.open(_folder() / file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
                    out.write(content)
        except OSError as error:
            # All names were free a moment ago, so what is there now is half of this key.
            for file, _, _ in files:
                (_folder() / file).unlink(missing_ok=True)
            raise Refused(f"the key cannot be written: {error.strerror}", where=str(_folder() / files[0][0])) from None
        entries[keyid] = TrustedKey(name, pem, _now(), expires=dates.text(expires) if expires else None)
    return keyid


def own() -> list[str]:
    """The names of the keys that can sign here and whose word counts."""
    entries = trusted()
    good = {entry.name for entry in entries.values() if entry.revoked is None and not entry.expired()}
    found = {path.stem for kind in ("key", "agent") for path in _folder().glob(f"*.{kind}")}
    return sorted(good & found)


def signer(name: str) -> Signer:
    """What signs as NAME: its private key, or its agent.

    Errors: HallmarkError (there is none, it is not an Ed25519 key, others may read or change it), Refused (it is
    revoked or expired).
    """
    path = _folder() / f"{name}.agent"
    if not path.exists():
        return load_private(name)
    public = _folder() / f"{name}.pub"
    key = public_key(_content(public), where=str(public))
    keyid = _identify(key)[0]
    _counts(keyid, name)
    found = agent.load(path, verifier(keyid, key))
    found.ready()
    return found


def load_private(name: str) -> CryptoSigner:
    """Load the private key NAME for signing. Errors: as `signer`."""
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
    _counts(keyid, name)
    return CryptoSigner(private, verifier(keyid, private.public_key()))


def _counts(keyid: str, name: str) -> None:
    entry = trusted().get(keyid)
    _not_revoked(entry, name)
    if entry and entry.expired():
        hint = "`hallmark key trust FILE.pub --expires DATE` makes it count longer, `hallmark key new` makes another"
        raise Refused(f"the key {name} expired on {entry.expires}", hint=hint)


def _not_revoked(entry: TrustedKey | None, name: str) -> None:
    if entry and entry.revoked:
        raise Refused(f"the key {name} was revoked on {entry.revoked}", hint="`hallmark key new` makes another")


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


def trust(path: Path, expires: datetime | None = None) -> str:
    """Trust the public key in a PEM file, under the file's name; its id. With `expires` only until then, also where it
    was trusted before. Errors: HallmarkError, Refused."""
    keyid, pem = _identify(public_key(_content(path), where=str(path)))
    with _editing() as entries:
        known = entries.get(keyid)
        if known and known.revoked:
            raise Refused(f"this key was revoked on {known.revoked}", where=str(path), hint="trust another key")
        entry = known or TrustedKey(path.stem, pem, _now())
        entries[keyid] = replace(entry, expires=dates.text(expires)) if expires else entry
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


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise HallmarkError(f"cannot be read: {error.strerror}", where=str(path)) from None


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
