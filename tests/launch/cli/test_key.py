"""`hallmark key`, as it is typed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from launch.cli.context import Context
from launch.cli.key import key
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
