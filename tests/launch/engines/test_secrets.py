"""References to secrets."""

from pathlib import Path

import pytest

from launch.engines.secrets import resolve
from recipe.errors import HallmarkError
from tests.standin.world import World


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


def test_a_key_in_a_file_is_named_everywhere_and_shown_nowhere(world: World, tmp_path: Path) -> None:
    """The file is read when a rank starts; arguments, labels, plans and rendered files have its path only."""
    key = tmp_path / "api-key"
    key.write_text("THE-VALUE-ITSELF\n")
    world.profile("a", env={"VLLM_API_KEY": f"file:{key}"})
    nodes = [
        {"name": "left", "address": "a", "fabric": "10.0.0.1"},
        {"name": "right", "address": "b", "fabric": "10.0.0.2"},
    ]
    world.cluster("far", engine="docker", nodes=nodes, paths={"state": "/s", "models": "/m"})
    out = tmp_path / "out"
    rendered = world.run("render", "far", "--out", str(out))
    document = world.run("render", "far", "--json")
    files = [path.read_text() for path in out.iterdir()]
    shown = [rendered.out, rendered.err, document.out, *files]
    assert rendered.exit == document.exit == 0 and len(files) == 2
    assert all(f"file:{key}" in text for text in (rendered.out, document.out, *files))
    assert not any("THE-VALUE-ITSELF" in text for text in shown)
    assert resolve(f"file:{key}") == "THE-VALUE-ITSELF"
