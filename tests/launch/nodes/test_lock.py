"""The lock of a cluster."""

import getpass
import os
import signal
from pathlib import Path

import pytest

from launch.nodes.lock import holder, locked, whoami
from recipe.errors import Busy


def test_it_is_held_by_one_who_says_who_since_when_and_why(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    with locked(path, "launch a"):
        told = holder(path)
        assert told is not None
        assert told.startswith(f"{whoami()} (process {os.getpid()}) since 20")
        assert told.endswith(": launch a")
        with pytest.raises(Busy, match=r"being changed by .*: launch a") as found, locked(path, "stop"):
            pass
        assert found.value.exit == 6
    assert holder(path) is None


def test_it_is_free_after_an_error_and_says_nothing_of_its_last_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(KeyError), locked(path, "launch"):
        raise KeyError
    assert (holder(path), path.read_bytes()) == (None, b"")


def test_the_lock_of_a_dead_owner_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    child = os.fork()
    if child == 0:
        with locked(path, "launch"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert b"launch" in path.read_bytes()
    assert holder(path) is None
    with locked(path, "stop"):
        assert "stop" in str(holder(path))


def test_a_holder_that_has_not_written_yet_is_somebody(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path, "launch"):
        path.write_bytes(b"")
        assert holder(path) == "another command that has just begun"


def test_nobody_holds_what_does_not_exist(tmp_path: Path) -> None:
    assert holder(tmp_path / "lock") is None
    assert not (tmp_path / "lock").exists()


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert whoami().startswith(f"{os.getuid()}@")
