"""Reaching nodes: what ssh is told, and what is made of its words. Real connections are in tests/launch/ledger."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from launch.nodes import ssh
from launch.plan.place import Place
from recipe.errors import Exit, HallmarkError, Refused, Unreachable
from tests.standin.world import until

FAR, HERE = Place("far", "user@far"), Place("here", "local")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `ssh` that runs what it was to run elsewhere, as a login shell there does; `fails` makes it fail,
    `breaks` loses the connection once, after the command was run."""
    path = tmp_path / "ssh"
    path.write_text(
        '#!/bin/sh\n[ -f "$0.fails" ] && { cat "$0.fails" >&2; exit 255; }\n'
        "for word; do last=$word; done\n"
        '[ -f "$0.breaks" ] && { rm "$0.breaks"; sh -c "$last"; echo "Connection reset by peer" >&2; exit 255; }\n'
        'exec sh -c "$last"\n'
    )
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv(ssh.VARIABLE, raising=False)
    monkeypatch.setattr(ssh, "_PAUSE", 0.0)
    monkeypatch.setattr(ssh, "_reached", set())
    monkeypatch.setattr(ssh, "_failed", {})
    return path


def test_words_reach_the_node_as_they_are(program: Path) -> None:
    words = ["it's", "$HOME", "a b", "", "*", '"', "--x=1;2"]
    script = "import json, sys; print(json.dumps(sys.argv[1:]))"
    done = ssh.run(FAR, [sys.executable, "-c", script, *words])
    assert done.stdout == json.dumps(words) + "\n"


@pytest.mark.parametrize("place", [FAR, HERE])
def test_the_commands_own_status_comes_back(program: Path, place: Place) -> None:
    assert ssh.run(place, ["sh", "-c", "echo told; echo why >&2; exit 7"]).returncode == 7


def test_a_255_of_the_command_is_not_taken_for_sshs_own(program: Path) -> None:
    assert ssh.run(FAR, ["sh", "-c", "exit 255"]).returncode == 254


@pytest.mark.parametrize("place", [FAR, HERE])
def test_variables_arrive_and_stand_on_no_command_line(program: Path, place: Place) -> None:
    done = ssh.run(place, ["sh", "-c", 'printf %s "$KEY"'], variables={"KEY": "two words = 'x'"})
    assert done.stdout == "two words = 'x'"
    assert "two words" not in shlex.join(ssh.command(FAR, ["true"], variables=True))


def test_a_variable_of_two_lines_is_refused_without_its_value(program: Path) -> None:
    with pytest.raises(Refused, match="KEY has more than one line") as refused:
        ssh.run(FAR, ["true"], variables={"KEY": "first\nsecond"})
    assert "second" not in str(refused.value)


def test_b3_host_keys_are_checked_and_nothing_is_asked_or_forwarded() -> None:
    words = ssh.command(FAR, ["docker", "ps"])
    assert words[-2] == "user@far" and words[-3] == "--"
    for option in ("BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no", "ConnectTimeout=10"):
        assert words[words.index(option) - 1] == "-o"
    assert "-F" not in words


def test_another_configuration_file_is_named_to_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    monkeypatch.setenv(ssh.VARIABLE, str(file))
    with pytest.raises(HallmarkError, match="HALLMARK_SSH_CONFIG: there is no file"):
        ssh.command(FAR, ["true"])
    file.write_text("")
    assert ssh.command(FAR, ["true"])[:3] == ["ssh", "-F", str(file)]


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("ssh: connect to host far port 22: Connection refused", "it refuses SSH connections"),
        ("No ED25519 host key is known for far and you have requested strict checking.", "its host key is not known"),
        ("Host key verification failed.", "its host key is not known here"),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "another one than known",
        ),
        ("ssh: connect to host far port 22: Connection timed out", "no answer within 10 s"),
        ("ssh: Could not resolve hostname far: Name or service not known", "its name is not known"),
        ("user@far: Permission denied (publickey).", "it does not let this user in"),
        ("ssh: connect to host far port 22: No route to host", "there is no way to it"),
        ("something new", "cannot be reached: something new"),
        ("", "ssh said nothing"),
    ],
)
def test_what_ssh_says_is_one_line_with_the_node(program: Path, told: str, says: str) -> None:
    program.with_name("ssh.fails").write_text(told)
    with pytest.raises(Unreachable) as failed:
        ssh.run(FAR, ["true"])
    assert failed.value.exit is Exit.UNREACHABLE
    assert str(failed.value).startswith("user@far: node far") and says in str(failed.value)
    assert len(failed.value.problems) == 1


def test_a_connection_that_breaks_once_is_made_again(program: Path, tmp_path: Path) -> None:
    program.with_name("ssh.breaks").touch()
    words = ["sh", "-c", f"cat; echo x >>{tmp_path}/runs"]
    assert ssh.run(FAR, words, given="given").stdout == "given"
    assert (tmp_path / "runs").read_text() == "x\nx\n"


def test_what_must_not_run_twice_is_not_repeated(program: Path, tmp_path: Path) -> None:
    program.with_name("ssh.breaks").touch()
    with pytest.raises(Unreachable, match="Connection reset by peer"):
        ssh.run(FAR, ["sh", "-c", f"echo x >>{tmp_path}/runs"], once=True)
    assert (tmp_path / "runs").read_text() == "x\n"


@pytest.mark.parametrize("reached", [False, True])
def test_a_node_that_was_never_reached_is_not_asked_again(program: Path, reached: bool) -> None:
    if reached:
        ssh.run(FAR, ["true"])
    asked = program.with_name("asked")
    program.write_text(f"#!/bin/sh\necho x >>{asked}\necho 'connect to host far: Connection refused' >&2\nexit 255\n")
    with pytest.raises(Unreachable):
        ssh.run(FAR, ["true"])
    assert asked.read_text().count("x") == 1 + reached


def test_a_node_that_is_gone_is_not_waited_for_by_every_question_of_a_command(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = program.with_name("asked")
    program.write_text(f"#!/bin/sh\necho x >>{asked}\necho 'connect to host far: timed out' >&2\nexit 255\n")
    for _ in range(3):
        with pytest.raises(Unreachable, match="no answer within"):
            ssh.run(FAR, ["true"])
    assert asked.read_text().count("x") == 1
    monkeypatch.setattr(ssh, "_AGAIN_SECONDS", 0.0)
    with pytest.raises(Unreachable):
        ssh.run(FAR, ["true"])
    assert asked.read_text().count("x") == 2


def test_a_command_that_does_not_end_is_given_up_and_it_is_said_what_to_do(program: Path) -> None:
    said = r"node far did not end `sleep 60 …` within 0\.2 s — run it there by hand, and restart what hangs"
    with pytest.raises(Unreachable, match=said):
        ssh.run(FAR, ["sleep", "60"], seconds=0.2)


def test_a_program_that_is_held_ends_with_the_block_and_with_this_program(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom launch.nodes.held import held\n"
        "with held(['sh', '-c', 'echo $$ >&2; exec sleep 60']) as process:\n"
        "    print(process.stderr.readline().strip(), flush=True)\n    os.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, cwd=root)

    def ended() -> bool:
        try:
            return "Z" in (Path("/proc") / done.stdout.strip() / "stat").read_text().split()[2]
        except (FileNotFoundError, ProcessLookupError):
            return True

    until(ended)
