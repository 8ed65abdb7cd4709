"""References to secrets."""

import subprocess
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


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"  \n", "is empty"),
        (b"hidden\r\n", "holds a carriage return"),
        (b"\xef\xbb\xbfhidden\n", "holds a byte order mark"),
        (b"hid\0den", "holds a NUL character"),
    ],
)
def test_c6_a_file_that_holds_no_usable_secret_is_refused_without_its_value(
    tmp_path: Path, content: bytes, says: str
) -> None:
    """An empty key would leave the API open to everybody, although the profile says that it has one."""
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(HallmarkError, match=f"the secret file:.*key {says}") as error:
        resolve(f"file:{tmp_path}/key")
    assert "hidden" not in str(error.value)


@pytest.mark.parametrize("content", ["hidden\nhidden\n", " hidden\n", "hidden \n", "hidd\u00e9n\n"])
def test_c6_a_key_that_no_request_can_carry_is_refused_before_anything_starts(
    world: World, tmp_path: Path, content: str
) -> None:
    (tmp_path / "key").write_text(content)
    assert "hidd" in resolve(f"file:{tmp_path}/key", "OTHER")
    world.profile("a", env={"VLLM_API_KEY": f"file:{tmp_path}/key"})
    result = world.run("launch", "pair")
    assert (result.exit, "key is more than one plain word" in result.err) == (2, True), result.err
    assert "hidd" not in result.err
    assert world.processes() == []


def test_c6_a_key_that_was_spoilt_while_the_group_runs_is_told_by_status(world: World, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hidden\n")
    world.profile("a", env={"VLLM_API_KEY": f"file:{tmp_path}/key"})
    world.done("launch", "pair")
    (tmp_path / "key").write_text("hidd\u00e9n\n")
    result = world.run("status", "pair")
    assert (result.exit, "key is more than one plain word" in result.err) == (1, True), result.err


def test_c6_a_variable_that_is_set_to_nothing_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "")
    world.profile("a", env={"VLLM_API_KEY": "env:THE_KEY"})
    result = world.run("launch", "pair")
    assert (result.exit, "the secret env:THE_KEY is empty — export THE_KEY" in result.err) == (2, True), result.err
    assert world.processes() == []


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


def test_c6_a_job_of_slurm_ends_when_the_file_of_its_secret_is_empty(world: World, tmp_path: Path) -> None:
    key = tmp_path / "api key"
    key.write_text("\n")
    world.profile("a", env={"VLLM_API_KEY": f"file:{key}"})
    nodes = [{"name": name, "address": "local"} for name in ("left", "right")]
    world.cluster("job", engine="slurm", nodes=nodes, paths={"state": "/s", "models": "/m", "venv": str(world.venv)})
    script = world.run("render", "job").out.splitlines()
    [at] = [number for number, line in enumerate(script) if line.startswith("export VLLM_API_KEY=")]
    done = subprocess.run(
        ["bash", "-c", "\n".join([*script[at : at + 2], "echo started"])], capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0, done.stdout, "VLLM_API_KEY: it is empty" in done.stderr) == (True, "", True)
