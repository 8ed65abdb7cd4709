"""The lock of a cluster, on nodes that are folders of this machine."""

import getpass
import os
import signal
from pathlib import Path

import pytest

from launch.nodes import lock
from launch.nodes.lock import Lock, Overtaken, holder, locked, overtaken, whoami
from launch.nodes.shelf import Shelf
from launch.plan.place import Place
from recipe.errors import Busy


def nodes(folder: Path) -> list[Shelf]:
    return [Shelf(Place(name, "local"), str(folder / name), "pair") for name in ("left", "right")]


@pytest.fixture
def shelves(tmp_path: Path) -> list[Shelf]:
    return nodes(tmp_path)


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done from now on is done on another machine."""
    monkeypatch.setattr(lock, "_host", lambda: "elsewhere 1")
    monkeypatch.setattr(lock, "_boot", lambda: "another pid:[1]")


def test_it_is_held_by_one_who_says_who_since_when_and_why(shelves: list[Shelf]) -> None:
    mine = Lock(shelves)
    with locked(mine, "launch a"):
        told = holder(Lock(shelves))
        assert told is not None
        assert told.startswith(f"{whoami()} (process {os.getpid()}) since 20")
        assert told.endswith(": launch a")
        assert list(Lock(shelves).owners()) == ["left", "right"]
        with pytest.raises(Busy, match=r"being changed by .*: launch a — try again when it is done$") as found:
            Lock(shelves).take("stop")
        assert found.value.exit == 6
        # It is still the first one's.
        assert holder(mine) == told
    assert (holder(mine), mine.owners(), mine.number) == (None, {}, None)


def test_it_is_held_on_every_node_or_on_none(shelves: list[Shelf]) -> None:
    with locked(Lock(shelves[1:]), "another cluster file"), pytest.raises(Busy, match="another cluster file"):
        Lock(shelves).take("launch")
    assert Lock(shelves).owners() == {}


def test_two_nodes_that_are_one_machine_are_locked_once(shelves: list[Shelf]) -> None:
    twice = [shelves[0], Shelf(Place("again", "local"), shelves[0].state, "pair")]
    with locked(Lock(twice), "launch"):
        assert set(Lock(twice).owners()) == {"left", "again"}
    assert Lock(twice).owners() == {}


def test_it_is_free_after_an_error(shelves: list[Shelf]) -> None:
    with pytest.raises(KeyError), locked(Lock(shelves), "launch"):
        raise KeyError
    assert Lock(shelves).owners() == {}


def test_the_lock_of_a_process_that_died_here_gives_way(shelves: list[Shelf]) -> None:
    child = os.fork()
    if child == 0:
        Lock(shelves).take("launch")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert [owner.alive for owner in Lock(shelves).owners().values()] == [False, False]
    assert holder(Lock(shelves)) is None
    with locked(Lock(shelves), "stop"):
        assert "stop" in str(holder(Lock(shelves)))


def test_a_later_process_of_the_same_number_is_another_one(
    shelves: list[Shelf], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(lock, "_began", lambda pid: 1)
        Lock(shelves).take("launch")
    assert holder(Lock(shelves)) is None


def test_whether_a_process_of_another_machine_lives_is_left_to_a_person(
    shelves: list[Shelf], monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(Lock(shelves), "launch"):
        elsewhere(monkeypatch)
        assert [owner.alive for owner in Lock(shelves).owners().values()] == [None, None]
        with pytest.raises(Busy, match="if that process is gone, `hallmark lock break pair`"):
            Lock(shelves).take("stop")


def test_no_process_lives_through_a_boot_of_its_machine(shelves: list[Shelf], monkeypatch: pytest.MonkeyPatch) -> None:
    Lock(shelves).take("launch")
    here = lock._boot()
    # In a container here it cannot be seen.
    monkeypatch.setattr(lock, "_boot", lambda: f"{here.split()[0]} pid:[1]")
    assert [owner.alive for owner in Lock(shelves).owners().values()] == [None, None]
    monkeypatch.setattr(lock, "_boot", lambda: f"the-next {here.split()[1]}")
    monkeypatch.setattr(lock, "_host", lambda: "this 1")
    assert [owner.alive for owner in Lock(shelves).owners().values()] == [None, None]
    monkeypatch.undo()
    monkeypatch.setattr(lock, "_boot", lambda: f"the-next {here.split()[1]}")
    monkeypatch.setattr(lock, "_host", lambda: Lock(shelves).owners()["left"].host)
    assert [owner.alive for owner in Lock(shelves).owners().values()] == [False, False]
    with locked(Lock(shelves), "stop"):
        pass


def test_it_is_taken_from_those_who_were_named_and_from_nobody_else(
    shelves: list[Shelf], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Lock(shelves), Lock(shelves)
    first.take("launch")
    seen = second.owners()
    first.release()
    first.take("launch again")
    with pytest.raises(Busy, match="launch again"):
        second.take("lock break", seen)
    second.take("lock break", second.owners())
    first.release()
    assert "lock break" in str(holder(second))


def test_a_file_that_nobody_can_read_is_somebodys(shelves: list[Shelf]) -> None:
    folder = Path(shelves[0].state) / "clusters" / "pair"
    folder.mkdir(parents=True)
    (folder / "lock").write_text("?\nnonsense\n")
    assert str(holder(Lock(shelves))).startswith("somebody (process 0) since an unknown time")
    with pytest.raises(Busy, match="somebody"):
        Lock(shelves).take("stop")


def test_who_lost_it_is_told_by_whom(shelves: list[Shelf]) -> None:
    assert isinstance(overtaken(""), Overtaken)
    assert str(overtaken("")).startswith("the lock was broken; this command does nothing more")


def test_nobody_holds_what_does_not_exist(shelves: list[Shelf], tmp_path: Path) -> None:
    assert holder(Lock(shelves)) is None
    assert list(tmp_path.iterdir()) == []


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert whoami().startswith(f"{os.getuid()}@")
