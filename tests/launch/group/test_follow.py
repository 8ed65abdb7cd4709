"""Following what is written on a node, over a real ssh: nothing of it stays there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.group.follow import follow
from launch.nodes import ssh
from launch.plan.place import Place
from recipe.errors import Unreachable
from tests.conftest import possible
from tests.launch.nodes.spaces import two
from tests.standin.world import until


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with possible(), two(tmp_path) as (first, _, config):
        monkeypatch.setenv(ssh.VARIABLE, str(config))
        yield Place("far", first.host)


def test_lines_come_as_they_are_written_and_nothing_runs_on_when_nobody_listens(far: Place, tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []

    def hear(name: str, line: str) -> None:
        heard.append((name, line))
        if line == "third":
            raise BrokenPipeError

    (tmp_path / "pid").touch()
    endless = f"echo $$ >{tmp_path}/pid; echo first; echo second >&2; sleep 0.1; echo third; exec sleep 300"
    with pytest.raises(BrokenPipeError):
        follow({"far": (far, ("sh", "-c", endless))}, hear)
    assert heard == [("far", "first"), ("far", "second"), ("far", "third")]
    pid = (tmp_path / "pid").read_text().strip()
    until(lambda: not Path("/proc", pid).exists())


def test_it_ends_with_the_last_of_its_commands_and_tells_a_node_that_is_not_reached(far: Place) -> None:
    heard: list[tuple[str, str]] = []
    lost = Place("lost", "127.0.0.1.invalid")
    with pytest.raises(Unreachable, match="node lost"):
        follow(
            {"far": (far, ("echo", "it's here")), "lost": (lost, ("true",))},
            lambda name, line: heard.append((name, line)),
        )
    assert heard == [("far", "it's here")]
