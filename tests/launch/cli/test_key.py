"""`hallmark key`, as it is typed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from launch.cli.context import Context
from launch.cli.key import key
from launch.proof import keys
from recipe.errors import HallmarkError


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HALLMARK_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def run(*words: str, as_json: bool = False) -> str:
    result = CliRunner().invoke(key, words, obj=Context(Path(), as_json), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_key_is_made_listed_revoked_and_shown_as_revoked() -> None:
    keyid = json.loads(run("new", "ops", as_json=True))["keyid"]
    assert run("list").startswith(f"{keyid}  ops  trusted since ")
    assert run("revoke", keyid[:12]).startswith(f"revoked: {keyid}")
    [entry] = json.loads(run("list", as_json=True))["keys"]
    assert (entry["keyid"], entry["name"]) == (keyid, "ops")
    assert entry["revoked"]


def test_an_empty_list_says_how_to_make_a_key() -> None:
    assert "hallmark key new" in run("list")
    assert json.loads(run("list", as_json=True)) == {"keys": []}


def test_a_public_key_of_another_machine_is_trusted(state: Path, tmp_path: Path) -> None:
    keyid = json.loads(run("new", "ops", as_json=True))["keyid"]
    (state / "keys" / "ops.pub").rename(tmp_path / "other.pub")
    (state / "keys" / "trusted.json").unlink()
    assert run("trust", str(tmp_path / "other.pub")).strip() == f"trusted: {keyid}"


def test_a_missing_file_is_a_plain_error() -> None:
    with pytest.raises(HallmarkError, match="No such file"):
        run("trust", "nowhere.pub")


def test_a_key_with_an_end_is_listed_with_it_and_may_get_another(state: Path) -> None:
    keyid = json.loads(run("new", "ops", "--expires", "2999-12-31", as_json=True))["keyid"]
    assert run("list").endswith(" until 2999-12-31T23:59:59+00:00\n")
    run("trust", str(state / "keys" / "ops.pub"), "--expires", "2998-01-01")
    [entry] = json.loads(run("list", as_json=True))["keys"]
    assert (entry["keyid"], entry["expires"]) == (keyid, "2998-01-01T23:59:59+00:00")
    path = state / "keys" / "trusted.json"
    path.write_text(path.read_text().replace("2998-", "2020-"))
    assert "  ops  expired 2020-01-01T23:59:59+00:00" in run("list")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--expires", "soon"), "--expires: 'soon' is no time at which something ends"),
        (("--expires", "2020-01-01"), "--expires: 2020-01-01 is past"),
        (("--agent", "sh"), "--public: an agent and its public key belong together"),
        (("--public", "x.pub"), "--agent: an agent and its public key belong together"),
        (("--agent", " ", "--public", "x.pub"), "--agent: names no program"),
        (("--agent", "'", "--public", "x.pub"), "No closing quotation"),
        (("--agent", "sh", "--public", "nowhere.pub"), "nowhere.pub: cannot be read"),
    ],
)
def test_what_makes_no_key_is_a_plain_error_and_leaves_nothing(state: Path, words: tuple[str, ...], says: str) -> None:
    with pytest.raises(HallmarkError) as refused:
        run("new", "ops", *words)
    assert says in str(refused.value)
    assert not list(state.rglob("ops*"))


def test_a_program_that_signs_becomes_a_key(state: Path, tmp_path: Path) -> None:
    keyid = json.loads(run("new", "token", as_json=True))["keyid"]
    for file in ("token.key", "token.pub"):
        (state / "keys" / file).rename(tmp_path / file)
    script = f"cat >{tmp_path}/in && openssl pkeyutl -sign -rawin -inkey {tmp_path}/token.key -in {tmp_path}/in"
    made = run("new", "agent", "--agent", f"sh -c '{script}'", "--public", str(tmp_path / "token.pub"), as_json=True)
    assert json.loads(made) == {"name": "agent", "keyid": keyid}
    assert json.loads((state / "keys" / "agent.agent").read_text()) == ["sh", "-c", script]


@pytest.mark.parametrize("command", ["new ops", "trust ops.pub"])
def test_an_end_that_is_empty_is_no_key_that_counts_for_good(command: str) -> None:
    """As of a variable that is not set in the shell."""
    with pytest.raises(HallmarkError, match="'' is no time at which something ends"):
        run(*command.split(), "--expires", "")
    assert json.loads(run("list", as_json=True)) == {"keys": []}


def test_an_agent_named_from_the_folder_where_somebody_is_signs_from_any_other(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("new", "ops")
    (state / "keys" / "ops.key").rename(tmp_path / "secret.pem")
    (state / "keys" / "ops.pub").rename(tmp_path / "ops.pub")
    (state / "keys" / "trusted.json").unlink()
    script = 'f=$(mktemp); cat >"$f"; openssl pkeyutl -sign -rawin -inkey "$(dirname "$0")/secret.pem" -in "$f"'
    (tmp_path / "sign").write_text(f'#!/bin/sh\n{script}; rm "$f"\n')
    (tmp_path / "sign").chmod(0o700)
    monkeypatch.chdir(tmp_path)
    run("new", "token", "--agent", "./sign", "--public", "ops.pub")
    monkeypatch.chdir("/")
    assert keys.signer("token").sign(b"x")
