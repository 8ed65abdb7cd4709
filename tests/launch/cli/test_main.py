"""The command itself: what it does without a home, on a poor terminal, and when nothing can be printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recipe.config import paths
from recipe.errors import HallmarkError

HALLMARK = [str(Path(sys.executable).parent / "hallmark"), "--home", str(paths.CHECKOUT)]


def test_a_user_without_a_home_is_told_to_set_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(HallmarkError, match="HOME: this user has no home folder — set HOME"):
        paths.user_home()


def test_a_terminal_that_knows_only_ascii_gets_everything_else() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*HALLMARK, "profiles"], env=environment, capture_output=True, check=True)
    assert b"cpu-dev" in done.stdout
    assert done.stderr == b""


@pytest.mark.parametrize("words", [["profiles"], ["profiles", "--json"]])
def test_a_full_output_ends_in_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*HALLMARK, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "hallmark: not done: No space left on device\n"


def test_a_group_of_commands_without_one_names_them() -> None:
    done = subprocess.run([*HALLMARK, "key"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "hallmark: hallmark key needs a command — one of new, list, trust, revoke\n"
