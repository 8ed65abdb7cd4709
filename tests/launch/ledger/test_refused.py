"""What is refused: one clear line each, the right exit status, and nothing changed."""

import errno
import json
import os
import platform
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launch.nodes import environment
from launch.nodes.lock import locked
from tests.standin.world import World


@pytest.fixture
def running(world: World) -> Iterator[World]:
    """Revision 1 is certified and runs; whatever a test does, it must go on as it is."""
    world.done("key", "new", "ops")
    world.done("launch", "pair")
    world.done("certify", "pair")
    before = {process.pid for process in world.processes()}
    yield world
    assert {process.pid for process in world.processes()} == before
    assert world.answers()


def other_architecture(world: World) -> None:
    machine = "arm64" if platform.machine() == "x86_64" else "amd64"
    world.hardware(architecture=machine)


def no_model(world: World) -> None:
    (world.models / "tiny" / "config.json").unlink()


def no_venv(world: World) -> None:
    world.cluster(paths={"state": str(world.node), "models": str(world.models), "venv": str(world.venv / "no")})


def no_program(world: World) -> None:
    world.profile("c", "greets", entrypoint=["vllm-next", "serve"])


def huge(world: World) -> None:
    world.hardware(**{"rank-memory-gib": 100_000})


def cache_that_is_no_number(world: World) -> None:
    world.profile("c", "greets", env={"VLLM_CPU_KVCACHE_SPACE": "much"})


def time_that_is_no_number(world: World) -> None:
    world.profile("c", "greets", env={"VLLM_ENGINE_READY_TIMEOUT_S": "ten"})


def no_secret(world: World) -> None:
    world.profile("c", "greets", env={"VLLM_API_KEY": "env:NOT_SET_ANYWHERE"})


def drifts(world: World) -> None:
    world.profile("c", "misses-its-line")


def unknown_gate(world: World) -> None:
    world.profile("c", "greets", gates={"trial": ["answer"], "certify": []})


def broken_gate(world: World) -> None:
    world.write("gates/answers.yaml", {"kind": "answers", "summary": "none"})


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (other_architecture, 2, r"node left: is linux/a\w+64, here is a\w+64"),
        (no_model, 2, "/tiny has no config.json"),
        (no_venv, 1, "there is no virtual environment"),
        (no_program, 2, "there is no program 'vllm-next'"),
        (huge, 2, r"here.yaml:\d+: node left: 2 ranks need about 200000.0 GiB of memory, \d"),
        (cache_that_is_no_number, 1, r"c.yaml:\d+: VLLM_CPU_KVCACHE_SPACE: 'much' is not a number"),
        (time_that_is_no_number, 1, r"c.yaml:\d+: VLLM_ENGINE_READY_TIMEOUT_S: 'ten' is not a number"),
        (no_secret, 2, "the secret env:NOT_SET_ANYWHERE is not set"),
        (drifts, 2, "misses-its-line: vllm/behaviour.py: <module>: drift:anchor"),
        (unknown_gate, 1, "there is no gate 'answer'"),
        (broken_gate, 1, r"answers.yaml:\d+: prompts"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_launch_that_cannot_work_is_refused(
    running: World, change: Callable[[World], None], status: int, says: str
) -> None:
    change(running)
    journal = len(running.journal().entries)
    result = running.run("launch", "pair", "--profile", "c", "--json")
    assert (result.exit, result.document["error"]["exit"]) == (status, status)
    assert re.search(says, result.err), result.err
    assert result.document["error"]["message"]
    added = [entry.event for entry in running.journal().entries[journal:]]
    assert added in ([], ["INTENT", "RESTORED"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("launch", "pear"), "there is no cluster 'pear' — did you mean pair?"),
        (("launch", "pair", "--profile", "d"), "there is no profile 'd'"),
        (("status", "nowhere/x.yaml"), "x.yaml"),
        (("certify", "pair", "--key", "nobody"), "`hallmark key new nobody` makes one"),
    ],
)
def test_unknown_names_are_usage_errors(world: World, words: tuple[str, ...], says: str) -> None:
    result = world.run(*words)
    assert (result.exit, result.out) == (1, "")
    assert says in result.err


@pytest.mark.parametrize("port", ["api", "master"])
def test_a_port_that_somebody_has_is_refused_with_who(world: World, port: str) -> None:
    number = getattr(world, port)
    with socket.create_server(("127.0.0.1", number)):
        result = world.run("launch", "pair")
    assert result.exit == 2
    assert f"port {number} is taken by process {os.getpid()} (" in result.err
    assert world.processes() == []
    assert not world.journal().entries


def test_the_ports_of_the_group_that_runs_do_not_count(world: World) -> None:
    world.done("launch", "pair")
    world.done("launch", "pair", "--profile", "c")
    assert world.running() == [2]


def test_a_dry_run_changes_nothing(world: World) -> None:
    result = world.run("launch", "pair", "--dry-run")
    assert (result.exit, result.out.startswith("would launch a, patch set ")) == (0, True)
    assert not world.node.exists()
    assert not (world.state / "envs").exists()


def test_a_second_command_is_told_who_works_since_when_and_why(running: World) -> None:
    with locked(running.store().lock, "to see whether anybody minds"):
        for words in (("launch", "pair"), ("stop", "pair"), ("certify", "pair"), ("rollback", "pair")):
            result = running.run(*words)
            assert result.exit == 6
            assert f"(process {os.getpid()}) since 20" in result.err
            assert "to see whether anybody minds" in result.err
        assert running.run("status", "pair").exit == 0


def uncertified(world: World) -> tuple[str, ...]:
    world.run("launch", "pair", "--profile", "b")
    return ("--to", "2")


def unknown_revision(world: World) -> tuple[str, ...]:
    return ("--to", "7")


def short_digest(world: World) -> tuple[str, ...]:
    return ("--to", "ab")


def revoked(world: World) -> tuple[str, ...]:
    [key] = world.done("key", "list")["keys"]
    world.done("key", "revoke", key["keyid"])
    return ("--to", "1")


def certificate(world: World) -> Path:
    [path] = world.store().certificates.iterdir()
    return path


def edited_certificate(world: World) -> tuple[str, ...]:
    path = certificate(world)
    envelope = json.loads(path.read_text())
    envelope["payload"] = envelope["payload"][:-8] + "AAAAAAA="
    path.write_text(json.dumps(envelope))
    return ("--to", "1")


def missing_certificate(world: World) -> tuple[str, ...]:
    certificate(world).unlink()
    return ("--to", "1")


def edited_environment(world: World) -> tuple[str, ...]:
    [path] = (world.state / "envs").glob("*/vllm/behaviour.py")
    path.write_bytes(path.read_bytes() + b"# edited\n")
    return ("--to", "1")


def changed_venv(world: World) -> tuple[str, ...]:
    other = world.site / "torch-2.0.dist-info"
    other.mkdir()
    (other / "RECORD").write_text("torch/__init__.py,,\n")
    return ("--to", "1")


def missing_venv(world: World) -> tuple[str, ...]:
    world.venv.rename(world.venv.with_name("moved"))
    return ("--to", "1")


def edited_plan(world: World) -> tuple[str, ...]:
    path = world.store().folder / "plans" / "r1.json"
    path.write_text(path.read_text().replace("tiny", "evil"))
    return ("--to", "1")


def edited_patch_set(world: World) -> tuple[str, ...]:
    [path] = (world.store().folder / "patchsets").iterdir()
    path.write_text(path.read_text() + " ")
    return ("--to", "1")


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (unknown_revision, 2, "there is no revision, digest or tag '7' — certified revisions: 1"),
        (short_digest, 2, "there is no revision, digest or tag 'ab'"),
        (revoked, 2, "its certificate: revoked key"),
        (edited_certificate, 2, "its certificate: "),
        (missing_certificate, 2, "is missing"),
        (changed_venv, 2, "changed: the environment would be"),
        (missing_venv, 2, "there is no virtual environment"),
        (edited_plan, 4, "the plan of revision 1 was edited"),
        (edited_patch_set, 4, "the patch set is missing or was edited"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_rollback_to_what_does_not_hold_is_refused(
    running: World, change: Callable[[World], tuple[str, ...]], status: int, says: str
) -> None:
    arguments = change(running)
    result = running.run("rollback", "pair", *arguments)
    assert result.exit == status
    assert says in result.err
    assert "Traceback" not in result.err


def test_a_rollback_to_what_was_never_certified_is_refused(world: World) -> None:
    world.done("launch", "pair")
    result = world.run("rollback", "pair", "--to", "1")
    assert (result.exit, "revision 1 is not certified" in result.err) == (2, True)
    assert "no certified revision" in world.run("rollback", "pair").err
    assert world.answers()


def test_an_edited_environment_is_drift_and_is_made_again_once_it_is_removed(world: World) -> None:
    world.done("key", "new", "ops")
    world.profile("a", "greets")
    world.done("launch", "pair")
    world.done("certify", "pair")
    edited_environment(world)
    status = world.run("status", "pair")
    assert status.exit == 2
    assert "drift: " in status.out
    assert world.run("certify", "pair").exit == 2
    for words in (("rollback", "pair", "--to", "1"), ("launch", "pair")):
        refused = world.run(*words)
        assert (refused.exit, "vllm/behaviour.py: sha256" in refused.err) == (2, True), refused.err
    [folder] = (world.state / "envs").glob("[!.]*")
    folder.rename(world.state / "aside")
    assert world.done("rollback", "pair", "--to", "1")["changed"]
    assert world.done("status", "pair")["state"] == "running"


def test_a_changed_virtual_environment_is_drift_of_what_runs(running: World) -> None:
    changed_venv(running)
    found = running.run("status", "pair", "--json").document
    assert found["state"] == "degraded"
    assert "the environment would be" in found["ranks"][0]["drift"][0]


@pytest.mark.parametrize("line", [0, 2, -1])
def test_an_edited_journal_is_not_trusted(running: World, line: int) -> None:
    path = running.store().folder / "journal.jsonl"
    original = path.read_bytes()
    lines = original.splitlines(keepends=True)
    lines[line] = lines[line].replace(b'"revision":1', b'"revision":2')
    path.write_bytes(b"".join(lines))
    for words in (("launch", "pair"), ("status", "pair"), ("history", "pair"), ("stop", "pair")):
        result = running.run(*words)
        assert (result.exit, "the journal was edited or damaged: line" in result.err) == (4, True)
    path.write_bytes(original)


def test_a_journal_with_a_torn_last_line_is_read_without_it_and_written_on(running: World) -> None:
    path = running.store().folder / "journal.jsonl"
    before = len(running.journal().entries)
    with path.open("ab") as file:
        file.write(b'{"at":"2026-12-01T00:00:00.000+00:00","data":{"ki')
    assert running.done("status", "pair")["state"] == "running"
    running.done("certify", "pair")
    assert len(running.journal().entries) == before + 1


def full(*arguments: Any, **named: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device", "/somewhere")


@pytest.mark.parametrize(
    ("module", "name"),
    [(os, "fsync"), (environment, "_copy"), (Path, "mkdir"), (environment, "build")],
    ids=["records", "environment", "folders", "staging"],
)
def test_a_full_disk_is_one_line_and_nothing_changes(
    running: World, monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(module, name, full)
        result = running.run("launch", "pair", "--profile", "c")
    assert result.exit == 2
    assert "No space left on device" in result.err
    assert running.run("status", "pair").exit in (0, 2)
    running.run("rollback", "pair", "--to", "1")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_state_folder_that_may_not_be_written_is_one_line(world: World) -> None:
    world.node.mkdir(mode=0o500)
    result = world.run("launch", "pair")
    assert (result.exit, "Permission denied" in result.err) == (2, True)


def test_a_state_folder_that_is_a_file_is_one_line(world: World) -> None:
    world.node.write_text("")
    for words in (("launch", "pair"), ("stop", "pair")):
        result = world.run(*words)
        assert (result.exit, "Not a directory" in result.err) == (2, True), result.err


def test_logs_that_cannot_be_written_bring_the_old_group_back_or_need_a_person(world: World) -> None:
    world.done("launch", "pair")
    logs = world.store().folder / "logs"
    (logs / "r2").write_text("in the way of the new one's logs")
    result = world.run("launch", "pair", "--profile", "c")
    assert (result.exit, "revision 1 is back" in result.err) == (2, True), result.err
    assert world.answers()


def test_a_group_that_could_not_be_brought_back_is_not_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "secret")
    world.profile("a", env={"VLLM_API_KEY": "env:THE_KEY"})
    world.done("launch", "pair")
    monkeypatch.delenv("THE_KEY")
    result = world.run("launch", "pair", "--profile", "c")
    assert (result.exit, "the secret env:THE_KEY is not set" in result.err) == (2, True), result.err
    assert world.running() == [1]
    assert b"secret" not in (world.store().folder / "plans" / "r1.json").read_bytes().replace(b"secrets", b"")
