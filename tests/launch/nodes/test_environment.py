"""Patched environments: all or nothing, once, and never through to what they are made from."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launch.nodes import environment
from launch.nodes.environment import Environment
from recipe.catalogue.compile import compile_profile
from recipe.config.load import load_profile
from recipe.errors import HallmarkError, Refused
from tests.standin.world import World


@pytest.fixture
def make(world: World) -> Callable[..., Environment]:
    def described(*patches: str) -> Environment:
        world.profile("p", *patches)
        return environment.describe(world.venv, compile_profile(load_profile(world.home, "p")))

    return described


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def half_way(end: Callable[[], None]) -> Callable[..., None]:
    """A copying that ends so when all but the last is done."""
    real = vars(environment)["_copy"]

    def copy(*arguments: object) -> None:
        real(*arguments)
        end()

    return copy


def _raise(error: Exception) -> None:
    raise error


def test_it_is_made_once_and_is_as_it_was_built(make: Callable[..., Environment]) -> None:
    made = make("greets")
    assert environment.differences(made) == [f"{made.folder} is missing"]
    assert environment.build(made) is True
    assert environment.build(made) is False
    assert environment.differences(made) == []
    assert 'GREETING = "patched"' in (made.folder / "vllm" / "behaviour.py").read_text()


def test_files_are_shared_until_they_are_patched(world: World, make: Callable[..., Environment]) -> None:
    before = contents(world.venv)
    made = make("greets")
    environment.build(made)
    for name, shared in (("api.py", True), ("behaviour.py", False)):
        assert (made.folder / "vllm" / name).samefile(world.site / "vllm" / name) is shared
    assert contents(world.venv) == before


def test_nothing_writes_through_to_the_virtual_environment(world: World) -> None:
    before = contents(world.venv)
    world.done("launch", "pair", "--profile", "c")
    world.run("launch", "pair", "--profile", "b")
    world.done("launch", "pair")
    world.done("stop", "pair")
    assert contents(world.venv) == before


def test_a_copy_is_made_where_links_are_not_possible(
    make: Callable[..., Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: object, target: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_links)
    made = make("greets")
    environment.build(made)
    assert environment.differences(made) == []


def test_a_patch_that_drifts_leaves_nothing(make: Callable[..., Environment]) -> None:
    made = make("greets", "misses-its-line")
    with pytest.raises(Refused, match="misses-its-line"):
        environment.build(made)
    assert [path.name for path in made.folder.parent.iterdir()] == [".lock"]


def test_a_full_disk_leaves_nothing(make: Callable[..., Environment], monkeypatch: pytest.MonkeyPatch) -> None:
    made = make("greets")

    with monkeypatch.context() as patched:
        patched.setattr(environment, "_copy", half_way(lambda: _raise(OSError(28, "No space left on device"))))
        with pytest.raises(Refused, match="cannot make the environment: No space left on device"):
            environment.build(made)
    assert [path.name for path in made.folder.parent.iterdir()] == [".lock"]
    assert environment.build(made)


def test_one_that_was_killed_half_way_is_cleared_and_made(make: Callable[..., Environment]) -> None:
    made = make("greets")
    child = os.fork()
    if child == 0:
        vars(environment)["_copy"] = half_way(lambda: os.kill(os.getpid(), signal.SIGKILL))
        environment.build(made)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not made.folder.exists()
    assert environment.build(made)
    assert sorted(path.name for path in made.folder.parent.iterdir()) == [".lock", made.folder.name]


def test_of_several_at_once_one_makes_it(make: Callable[..., Environment]) -> None:
    made = make("greets")
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(environment.build, [made] * 4)) == [False, False, False, True]
    assert environment.differences(made) == []


def test_everything_that_it_is_made_from_names_it(world: World, make: Callable[..., Environment]) -> None:
    first = make()
    assert make() == first
    assert make("greets").digest != first.digest
    (world.site / "torch-2.dist-info").mkdir()
    (world.site / "torch-2.dist-info" / "RECORD").write_text("")
    assert make().digest != first.digest
    assert f"{world.venv} changed" in environment.differences_beneath(first)[0]
    config = world.venv / "pyvenv.cfg"
    second = make()
    config.write_text(config.read_text().replace("version = 3", "version = 4"))
    assert make().digest != second.digest


def test_no_virtual_environment_is_a_plain_error(world: World, make: Callable[..., Environment]) -> None:
    with pytest.raises(HallmarkError, match="there is no virtual environment"):
        environment.describe(world.home, make().patchset)
