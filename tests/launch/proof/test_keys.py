"""Keys are made once, kept private, and trusted or revoked by their own id."""

import errno
import hashlib
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from launch.proof import keys
from recipe.errors import HallmarkError, Mismatch, Refused


def test_a_new_key_is_private_trusted_and_can_sign(state: Path) -> None:
    keyid = keys.new("ops")
    assert stat.S_IMODE((state / "keys" / "ops.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((state / "keys").stat().st_mode) == 0o700
    assert keys.trusted()[keyid].name == "ops"
    assert keys.load_private("ops").public_key.keyid == keyid


def test_the_private_key_is_private_whatever_the_umask(state: Path) -> None:
    before = os.umask(0)
    try:
        keys.new("ops")
    finally:
        os.umask(before)
    assert stat.S_IMODE((state / "keys" / "ops.key").stat().st_mode) == 0o600


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl program")
def test_the_id_is_the_sha256_of_the_public_key_as_openssl_writes_it(state: Path) -> None:
    keyid = keys.new("ops")
    command = ["openssl", "pkey", "-in", str(state / "keys" / "ops.key"), "-pubout", "-outform", "DER"]
    der = subprocess.run(command, check=True, capture_output=True).stdout
    assert hashlib.sha256(der).hexdigest() == keyid


@pytest.mark.parametrize("existing", ["ops.key", "ops.pub"])
def test_a_key_is_never_overwritten(existing: str, state: Path) -> None:
    (state / "keys").mkdir(parents=True)
    (state / "keys" / existing).write_text("mine")
    with pytest.raises(HallmarkError, match="is there already"):
        keys.new("ops")
    assert sorted(path.name for path in (state / "keys").iterdir() if path.name != ".lock") == [existing]
    assert (state / "keys" / existing).read_text() == "mine"


@pytest.mark.parametrize("name", ["../ops", "", "Ops", "a/b", ".hidden", "a" * 65])
def test_a_name_that_is_no_plain_file_name_is_refused(name: str, state: Path) -> None:
    with pytest.raises(HallmarkError, match="no name for a key"):
        keys.new(name)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_private_key_that_others_may_read_is_refused(mode: int, state: Path) -> None:
    keys.new("ops")
    (state / "keys" / "ops.key").chmod(mode)
    with pytest.raises(HallmarkError, match="chmod 600"):
        keys.load_private("ops")


def test_a_missing_and_a_broken_private_key_are_told_apart(state: Path) -> None:
    with pytest.raises(HallmarkError, match="hallmark key new ops"):
        keys.load_private("ops")
    keys.new("ops")
    (state / "keys" / "ops.key").write_text("nonsense")
    with pytest.raises(HallmarkError, match="not an Ed25519 private key"):
        keys.load_private("ops")


def test_another_machines_public_key_is_trusted_once_and_by_its_file(state: Path, tmp_path: Path) -> None:
    keyid = keys.new("ops")
    public = tmp_path / "head.pub"
    shutil.copy(state / "keys" / "ops.pub", public)
    shutil.rmtree(state)
    assert keys.trusted() == {}
    assert keys.trust(public) == keyid
    first = keys.trusted()
    assert first[keyid].name == "head"
    assert keys.trust(public) == keyid
    assert keys.trusted() == first


def test_a_private_key_is_not_taken_for_a_public_one(state: Path) -> None:
    keys.new("ops")
    with pytest.raises(HallmarkError, match="not an Ed25519 public key"):
        keys.trust(state / "keys" / "ops.key")


def test_revoking_is_for_good(state: Path) -> None:
    keyid = keys.new("ops")
    assert keys.revoke(keyid[:8]) == keyid
    revoked = keys.trusted()[keyid].revoked
    assert revoked
    with pytest.raises(Refused, match="was revoked"):
        keys.trust(state / "keys" / "ops.pub")
    with pytest.raises(Refused, match="was revoked"):
        keys.load_private("ops")
    keys.revoke(keyid)
    assert keys.trusted()[keyid].revoked == revoked


@pytest.mark.parametrize("keyid", ["0" * 64, "abc", "", "zzzzzzzz", "ops"])
def test_an_unknown_id_cannot_be_revoked(keyid: str, state: Path) -> None:
    keys.new("ops")
    with pytest.raises(HallmarkError, match="is no trusted key"):
        keys.revoke(keyid)


def test_an_entry_whose_key_was_exchanged_is_a_mismatch(state: Path) -> None:
    first, second = keys.new("ops"), keys.new("other")
    path = state / "keys" / "trusted.json"
    entries = json.loads(path.read_text())
    entries[first]["pem"] = entries[second]["pem"]
    path.write_text(json.dumps(entries))
    with pytest.raises(Mismatch, match="holds another key"):
        keys.trusted()


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', '{"a": {"name": "x"}}', "{" * 10])
def test_a_broken_trust_list_stops_everything_and_is_kept(content: str, state: Path) -> None:
    (state / "keys").mkdir(parents=True)
    (state / "keys" / "trusted.json").write_text(content)
    with pytest.raises(HallmarkError, match="not a list of trusted keys"):
        keys.new("ops")
    assert (state / "keys" / "trusted.json").read_text() == content
    assert not (state / "keys" / "ops.key").exists()


def test_a_key_that_cannot_be_written_leaves_nothing_behind(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, mode: str) -> None:
        os.close(handle)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("launch.proof.keys.os.fdopen", full)
    with pytest.raises(Refused, match="No space left on device"):
        keys.new("ops")
    assert not list((state / "keys").glob("ops*"))
