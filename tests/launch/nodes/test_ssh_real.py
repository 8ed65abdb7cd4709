"""What a real ssh and a real sshd make of Hallmark's options: host keys are checked, and no agent is forwarded."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.nodes import ssh
from launch.plan.place import Place
from recipe.errors import Exit, Unreachable
from scripts.engines.packages import program
from tests.conftest import possible
from tests.launch.nodes.spaces import Space, two


@pytest.fixture
def near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Place, Path]]:
    """A node, and the file for ssh, which the test may change."""
    with possible(), two(tmp_path) as (first, _, config):
        monkeypatch.setenv(ssh.VARIABLE, str(config))
        yield _place(first), config


def _place(space: Space) -> Place:
    return Place("near", space.host)


def _other_key(folder: Path) -> str:
    keygen = program("ssh-keygen", "openssh-client")
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "other")], check=True)
    return (folder / "other.pub").read_text().strip()


def test_a_node_whose_key_nobody_has_accepted_is_not_talked_to(near: tuple[Place, Path]) -> None:
    place, config = near
    known = config.with_name("known_hosts")
    known.write_text("")
    # As some people have it, for all hosts.
    config.write_text(config.read_text() + "Host *\n  StrictHostKeyChecking no\n")
    with pytest.raises(Unreachable, match="node near: its host key is not known here") as refused:
        ssh.run(place, ["true"])
    assert (refused.value.exit, known.read_text()) == (Exit.UNREACHABLE, "")


def test_a_node_with_another_key_than_before_is_not_talked_to(near: tuple[Place, Path]) -> None:
    place, config = near
    config.with_name("known_hosts").write_text(f"{place.address} {_other_key(config.parent)}\n")
    with pytest.raises(Unreachable, match="node near: its host key is another one than known"):
        ssh.run(place, ["true"])


def test_no_agent_gets_to_a_node_whatever_the_users_file_says(
    near: tuple[Place, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, config = near
    config.write_text(config.read_text() + "Host *\n  ForwardAgent yes\n")
    socket = config.with_name("agent")
    agent = subprocess.Popen(
        [program("ssh-agent", "openssh-client"), "-D", "-a", str(socket)], stdout=subprocess.DEVNULL
    )
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        plain = ["ssh", "-F", str(config), "-o", "BatchMode=yes", place.address, "echo $SSH_AUTH_SOCK"]
        asked = subprocess.run(plain, check=True, capture_output=True, text=True).stdout.strip()
        assert asked, "without Hallmark's options it would be forwarded"
        assert ssh.run(place, ["sh", "-c", 'printf %s "$SSH_AUTH_SOCK"']).stdout == ""
    finally:
        agent.terminate()
        agent.wait()
