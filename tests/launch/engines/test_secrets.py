"""References to secrets."""

from pathlib import Path

import pytest

from launch.engines.secrets import resolve
from recipe.errors import HallmarkError


def test_a_variable_and_a_file_give_their_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "abc")
    (tmp_path / "token").write_text("d e f\n")
    assert (resolve("env:TOKEN"), resolve(f"file:{tmp_path}/token")) == ("abc", "d e f")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("file:~/token") == "d e f"


def test_what_is_not_there_is_named_without_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN", raising=False)
    with pytest.raises(HallmarkError, match="the secret env:TOKEN is not set — export TOKEN"):
        resolve("env:TOKEN")
    (tmp_path / "token").write_bytes(b"\xff secret")
    for path in ("token", "none"):
        with pytest.raises(HallmarkError, match=f"the secret file:.*{path} cannot be read") as error:
            resolve(f"file:{tmp_path}/{path}")
        assert "secret\n" not in str(error.value)
