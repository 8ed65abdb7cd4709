"""Signing by a program that holds the private key, such as the client of an HSM or of a key service.

The program gets the bytes to sign on standard input and writes the 64 bytes of an Ed25519 signature (RFC 8032) to
standard output; what it asks a person goes to the terminal, its standard error is told when it fails. Owns
STATE/keys/NAME.agent, a JSON list of its words.
"""

import json
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import Signature, Signer, SSlibKey  # type: ignore[attr-defined]  # has no __all__

from recipe.errors import HallmarkError, Refused

_LENGTH = 64
# Somebody may have to touch a token.
_SECONDS = 120


class AgentSigner(Signer):
    """Signs with the program; every signature is checked with the public key before it is used."""

    def __init__(self, command: Sequence[str], public: SSlibKey, where: str) -> None:
        self._command = tuple(command)
        self._public = public
        self._where = where

    @property
    def public_key(self) -> SSlibKey:
        return self._public

    @classmethod
    def from_priv_key_uri(cls, *arguments: Any, **named: Any) -> "AgentSigner":
        raise NotImplementedError("agents are found by the name of their key")

    def ready(self) -> None:
        """Look whether the program is there, before anything is done that ends with a signature.

        Errors: HallmarkError.
        """
        if shutil.which(self._command[0]) is None:
            raise HallmarkError(f"there is no program {self._command[0]}", where=self._where, hint="install it")

    def sign(self, payload: bytes) -> Signature:
        """Errors: Refused when the program fails, takes too long, or what it wrote is no signature of this key."""
        self.ready()
        told = shlex.join(self._command)
        try:
            done = subprocess.run(self._command, input=payload, capture_output=True, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise Refused(f"{told} did not sign within {_SECONDS} s", where=self._where) from None
        except OSError as error:
            raise Refused(f"{told} cannot be run: {error.strerror}", where=self._where) from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit {done.returncode}"]
            raise Refused(f"{told} did not sign: {lines[-1]}", where=self._where)
        if len(done.stdout) != _LENGTH:
            hint = f"it must write the {_LENGTH} bytes of an Ed25519 signature, and nothing else"
            raise Refused(f"{told} wrote {len(done.stdout)} bytes", where=self._where, hint=hint)
        signature = Signature(self._public.keyid, done.stdout.hex())
        try:
            self._public.verify_signature(signature, payload)
        except UnverifiedSignatureError:
            hint = "the public key belongs to another private key, or the program signed something else than its input"
            raise Refused(f"{told} wrote a signature that does not fit", where=self._where, hint=hint) from None
        return signature


def words(command: Sequence[str]) -> bytes:
    """What the file of an agent says."""
    return (json.dumps(list(command)) + "\n").encode()


def load(path: Path, public: SSlibKey) -> AgentSigner:
    """Errors: HallmarkError when the file is no agent's, or others may change what is run."""
    try:
        mode, content = path.stat().st_mode, path.read_text(encoding="utf-8")
    except OSError as error:
        raise HallmarkError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if mode & 0o022:
        message = f"others may change what is run to sign (mode {mode & 0o777:04o})"
        raise HallmarkError(message, where=str(path), hint=f"chmod 600 {path}, and look what it says")
    try:
        command = json.loads(content)
    except ValueError:
        command = None
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise HallmarkError("is no list of words", where=str(path), hint="make the key again with `hallmark key new`")
    return AgentSigner(command, public, str(path))
