"""The records of a cluster on disk."""

from dataclasses import replace

import pytest

from launch.ledger.launch import want
from launch.ledger.store import find_certificates
from launch.ledger.work import work
from recipe.errors import Mismatch
from tests.standin.world import World


def test_a_plan_and_a_patch_set_come_back_as_they_were_saved(world: World) -> None:
    wanted = want(work(world.home, "pair", lambda line: None), "c", None)
    store = world.store()
    sha256 = store.save_plan(3, wanted.plan)
    assert store.load_plan(3, sha256) == wanted.plan
    assert wanted.staging.patchset is not None
    store.save_patchset(wanted.staging.patchset)
    assert store.load_patchset(wanted.staging.patchset.sha256) == wanted.staging.patchset
    with pytest.raises(Mismatch, match="the plan of revision 3 was edited"):
        store.load_plan(3, "0" * 64)
    with pytest.raises(Mismatch, match="the plan of revision 4 cannot be read"):
        store.load_plan(4, sha256)
    assert replace(wanted.plan) == wanted.plan


def test_a_file_is_written_whole_or_stays_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = want(work(world.home, "pair", lambda line: None), "c", None)
    store = world.store()
    sha256 = store.save_plan(1, wanted.plan)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.replace", full)
        with pytest.raises(OSError, match="No space"):
            store.save_plan(1, replace(wanted.plan, profile="other"))
    assert store.load_plan(1, sha256) == wanted.plan


def test_a_relative_state_folder_is_beside_the_cluster_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {"state": "../node", "models": str(world.models), "venv": str(world.venv)}
    world.cluster(paths=paths)
    monkeypatch.chdir(world.home / "configs")
    folder = work(world.home, "clusters/pair.yaml", lambda line: None).store.folder
    assert folder.is_absolute()
    assert folder.resolve() == world.home / "configs" / "node" / "clusters" / "pair"


def test_the_owner_stays_the_same_and_is_another_one_elsewhere(world: World) -> None:
    owner = world.store().owner()
    assert world.store().owner() == owner
    world.cluster(node=world.node.with_name("other"))
    assert world.store().owner() != owner
    assert world.store().mark(2).endswith("/r2")


def test_two_clusters_of_one_name_never_touch_each_others_ranks(world: World) -> None:
    world.done("launch", "pair")
    mine = {process.pid for process in world.processes()}
    owner = world.store().owner()
    world.api, world.master = world.api + 1, world.master + 1
    world.cluster(node=world.node.with_name("other"))
    world.done("launch", "pair")
    world.done("launch", "pair", "--profile", "c")
    world.done("stop", "pair")
    world.api, world.master = world.api - 1, world.master - 1
    world.cluster()
    assert world.store().owner() == owner
    assert {process.pid for process in world.processes()} == mine
    assert world.answers()


def test_certificates_of_one_cluster_or_of_all_are_found(world: World) -> None:
    assert find_certificates(world.home, "pair") == []
    folder = world.store().certificates
    folder.mkdir(parents=True)
    (folder / "x.json").write_text("{}")
    assert find_certificates(world.home, "pair") == [folder / "x.json"]
    assert folder / "x.json" in find_certificates(world.home, None)


def test_a_mistake_in_the_file_of_another_cluster_hides_no_certificate(world: World) -> None:
    folder = world.store().certificates
    folder.mkdir(parents=True)
    (folder / "x.json").write_text("{}")
    other = world.write("clusters/other.yaml", {"engine": "dokcer"})
    said: list[str] = []
    found = find_certificates(world.home, None, said.append)
    other.unlink()
    assert folder / "x.json" in found
    [warning] = said
    assert warning.startswith("warning: certificates of other are not looked for")
    assert "dokcer is not a choice" in warning
