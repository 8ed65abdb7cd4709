"""Signing by a program that holds the key: here openssl, as anybody could use it."""

import base64
import json
import subprocess
from pathlib import Path

import pytest

from launch.proof import keys
from launch.proof.certificate import sign, verify
from launch.proof.statement import build
from recipe.errors import HallmarkError, Refused
from tests.launch.proof.test_certificate import evidence


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A private key that Hallmark never sees; its public key is beside it."""
    path = tmp_path / "token" / "secret.pem"
    path.parent.mkdir()
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=True, capture_output=True)
    public = ["openssl", "pkey", "-in", str(path), "-pubout", "-out", str(path.with_suffix(".pub"))]
    subprocess.run(public, check=True, capture_output=True)
    return path


def agent(secret: Path, script: str | None = None) -> list[str]:
    # openssl signs Ed25519 from a file only: it must know how long the input is.
    signs = 'f=$(mktemp) && trap "rm -f $f" EXIT && cat >"$f" && openssl pkeyutl -sign -rawin -inkey "$1" -in "$f"'
    return ["sh", "-c", script or signs, "sh", str(secret)]


def test_a_certificate_signed_by_an_agent_is_like_any_other(secret: Path, state: Path) -> None:
    keyid = keys.new_agent("token", secret.with_suffix(".pub"), agent(secret))
    content = sign(build(evidence()), keys.signer("token"))
    found = verify(content, trusted=keys.trusted())
    assert (found.valid, found.signers) == (True, {keyid: "token"})
    assert len(base64.b64decode(json.loads(content)["signatures"][0]["sig"])) == 64
    assert keys.own() == ["token"]
    assert not list(state.rglob("*.key"))


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("cat >/dev/null; echo 'no token is inserted' >&2; exit 3", "did not sign: no token is inserted"),
        ("cat >/dev/null; exit 3", "did not sign: exit 3"),
        ("cat >/dev/null; printf 1234", "wrote 4 bytes — it must write the 64 bytes"),
        ("cat >/dev/null; head -c 64 /dev/zero", "wrote a signature that does not fit"),
    ],
)
def test_an_agent_that_does_not_sign_is_not_taken(script: str, says: str, secret: Path, state: Path) -> None:
    with pytest.raises(Refused) as refused:
        keys.new_agent("token", secret.with_suffix(".pub"), agent(secret, script))
    assert says in str(refused.value)
    assert keys.trusted() == {}
    assert not list(state.rglob("token*"))


def test_a_program_that_is_not_there_is_a_plain_error(secret: Path, state: Path) -> None:
    with pytest.raises(HallmarkError, match="there is no program no-such-agent"):
        keys.new_agent("token", secret.with_suffix(".pub"), ["no-such-agent"])


def test_an_agent_that_was_good_once_is_looked_at_before_it_is_needed(
    secret: Path, tmp_path: Path, state: Path
) -> None:
    program = tmp_path / "signs"
    program.write_text(f"#!/bin/sh\n{agent(secret)[2]}\n")
    program.chmod(0o755)
    keys.new_agent("token", secret.with_suffix(".pub"), [str(program), str(secret)])
    program.unlink()
    with pytest.raises(HallmarkError, match="there is no program"):
        keys.signer("token")


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_agent_that_others_may_change_is_refused_with_what_to_type(mode: int, secret: Path, state: Path) -> None:
    keys.new_agent("token", secret.with_suffix(".pub"), agent(secret))
    (state / "keys" / "token.agent").chmod(mode)
    with pytest.raises(HallmarkError, match="others may change what is run to sign") as refused:
        keys.signer("token")
    assert f"chmod 600 {state / 'keys' / 'token.agent'}" in str(refused.value)


def test_an_agent_whose_key_is_revoked_signs_no_more(secret: Path, state: Path) -> None:
    keys.revoke(keys.new_agent("token", secret.with_suffix(".pub"), agent(secret)))
    with pytest.raises(Refused, match="was revoked"):
        keys.signer("token")
    with pytest.raises(Refused, match="was revoked"):
        keys.new_agent("again", secret.with_suffix(".pub"), agent(secret))
