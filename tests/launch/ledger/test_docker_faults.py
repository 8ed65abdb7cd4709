"""The StandIn in containers on two real engines: ranks that die, hang or run out of memory, engines that hang
or die.

What a fault ends in is told on docs/faults.md too: each one is noted beside the test's result.
"""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from launch.group.backoff import Backoff
from launch.ledger.watch import Watch
from launch.ledger.work import work
from launch.nodes import reach
from recipe.errors import Exit
from scripts.bases import archive
from scripts.faults.plays import Row
from tests.conftest import possible
from tests.standin.image import standin
from tests.standin.pair import PATCHED, PLAIN, Pair
from tests.standin.world import until

pytestmark = pytest.mark.docker
HANGS = "localhost/standin-hangs-at-start:1"
EATS = "x = b'x' * 2**30"


class Faults:
    """The pair with what happens to it; `note` takes a row."""

    def __init__(self, pair: Pair, note: Callable[[Row], None]) -> None:
        self.pair, self.world, self.note = pair, pair.world, note
        self.said: list[str] = []

    def box(self, rank: int) -> dict[str, Any]:
        """What the engine tells of the rank's container that runs."""
        [name] = self.running(rank)
        found: list[dict[str, Any]] = json.loads(self.pair.nodes.engines[rank].docker("inspect", name).stdout)
        return found[0]

    def pids(self, rank: int) -> list[int]:
        """The rank's main process and its worker, as this machine sees them."""
        [main] = children(self.box(rank)["State"]["Pid"])
        return [main, *children(main)]

    def running(self, rank: int) -> list[str]:
        words = ("ps", "--quiet", "--filter", "label=dev.hallmark.cluster=pair")
        return self.pair.nodes.engines[rank].docker(*words).stdout.split()

    def act(self, *words: str, rank: int = 1) -> None:
        self.pair.nodes.engines[rank].docker(words[0], self.box(rank)["Id"], *words[1:])

    def restarted(self, fault: str, act: Callable[[], object]) -> str:
        """Let a watch see it; gives the reason for which it started the group again, after which that answers."""
        watch = Watch(
            lambda: work(self.world.home, "pair", self.said.append),
            self.said.append,
            backoff=Backoff(limit=50, first=0),
        )
        act()
        # Acts end with the fault, or look at what others tell of it.
        began = time.monotonic()
        until(lambda: watch.round().state == "lost")
        assert (watch.restarts, self.world.answers()) == (1, True), self.said
        reason = str(self.world.done("history", "pair")["restarts"][-2]["reason"])
        self.row(fault, f"`watch` saw: {reason}; the group was started again", began, "the group answered")
        return reason

    def told(self, fault: str, words: str, told: str, status: int) -> None:
        """Run a command that tells the operator, in a line that has `told`."""
        # Another command knows nothing of what this one saw.
        reach._hung.clear()
        began = time.monotonic()
        result = self.world.run(*words.split())
        text = result.out + result.err
        assert (result.exit, told in text) == (status, True), text
        [line, *_] = [it.strip() for it in text.splitlines() if told in it]
        if fault:
            self.row(fault, f"`{words.split()[0]}` ends with {status}: {line[:160]}", began, "the operator was told")

    def row(self, fault: str, happened: str, began: float, until: Any) -> None:
        self.note(Row(fault, happened, time.monotonic() - began, until))


def children(pid: int) -> list[int]:
    return [int(it) for it in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def hangs() -> archive.Base:
    """Made before a world has a cache of its own."""
    with possible():
        return standin("hangs-at-start")


@pytest.fixture
def faults(hangs: archive.Base, pair: Pair, request: pytest.FixtureRequest) -> Faults:
    pair.world.profile("a", gates={"trial": ["answers"], "certify": ["answers"]})

    archive.load(hangs, pair.nodes.engines[0].client, pair.nodes.engines[0].host)

    def note(row: Row) -> None:
        request.node.user_properties.append(("fault", json.dumps(asdict(row))))

    return Faults(pair, note)


def test_a_rank_that_is_lost_in_its_container_is_told_with_how_it_ended_and_the_group_is_started_again(
    faults: Faults,
) -> None:
    """One story, because each start of two containers takes seconds."""
    world = faults.world
    world.done("launch", "pair", "--image", PLAIN)
    killed = "its container ended with exit code 137, as after kill -9"

    def pause() -> None:
        faults.act("pause")
        found = world.run("status", "pair")
        assert (found.exit, "rank 1 right: its container is paused" in found.out) == (Exit.NOT_DONE, True), found.out

    reason = faults.restarted("`docker pause` of a rank's container", pause)
    assert reason == "rank 1 (right) hangs: its container is paused"
    for fault, rank, number, wanted in (
        ("kill -9 of a headless rank in its container", 1, 0, f"rank 1 (right) does not run: {killed}"),
        ("kill -9 of a headless rank's worker process in its container", 1, 1, "its container ended with exit code 0"),
        ("kill -9 of the head in its container", 0, 0, f"rank 0 (left) does not run: {killed}"),
    ):
        pid = faults.pids(rank)[number]
        assert wanted in faults.restarted(fault, lambda pid=pid: os.kill(pid, signal.SIGKILL))  # type: ignore[misc]
    [_, worker] = faults.pids(1)
    reason = faults.restarted("a worker process in a container is stopped", lambda: os.kill(worker, signal.SIGSTOP))
    assert reason == f"rank 1 (right) hangs: process {worker} is stopped"

    def eat() -> None:
        right, (main, _) = faults.pair.nodes.engines[1], faults.pids(1)
        name = faults.box(1)["Id"]
        right.docker("update", "--memory", "64m", "--memory-swap", "64m", name)
        # The kernel ends what eats, and then what it is told to end first.
        for score in ("0", "1000"):
            Path(f"/proc/{main}/oom_score_adj").write_text(score)
            assert right.docker("exec", name, "python3", "-S", "-c", EATS, check=False).returncode
        until(lambda: not Path(f"/proc/{main}").exists())

    reason = faults.restarted("a rank's container runs out of memory", eat)
    struck = "the kernel's out-of-memory killer struck in its container, which ended with exit code 137"
    assert reason == f"rank 1 (right) does not run: {struck}"
    kept = json.loads((world.store().logs(1) / "right.container.json").read_text())
    assert (kept["State"]["OOMKilled"], kept["State"]["ExitCode"]) == (True, 137)
    # Variables have secrets.
    assert "Config" not in kept
    a_container_that_is_paused_while_it_starts(faults)


def a_container_that_is_paused_while_it_starts(faults: Faults) -> None:
    right = faults.pair.nodes.engines[1]
    command = faults.world.begin("launch", "pair", "--image", HANGS)
    command.says("start revision 2")
    until(lambda: "rank 1" in right.docker("logs", *faults.running(1), check=False).stdout)
    faults.act("pause")
    began = time.monotonic()
    result = command.wait()
    told = "rank 1 (right) hangs: its container is paused"
    assert (result.exit, told in result.err) == (Exit.NOT_DONE, True), result.err
    assert faults.pair.serves(PLAIN)
    happened = f"`launch` saw it ({told}), exit 2, the old group is back"
    faults.row("`docker pause` of a container that starts", happened, began, "the group answered")


def test_an_engine_that_hangs_or_died_is_told_and_what_follows_ends_consistent(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, (left, right) = faults.world, faults.pair.nodes.engines
    world.done("launch", "pair", "--image", PLAIN)
    # Other tests may have files there at the same time.
    ours, stranger = (Path(f"/dev/shm/{name}-{os.getpid()}") for name in ("ours", "stranger"))
    stranger.touch()
    image = faults.box(1)["Image"]
    words = ("--detach", "--name", "stranger", "--network", "none", "--pid", "host", "--entrypoint", "sleep")
    # Not the first process of its own, which no signal but SIGKILL would end.
    right.docker("run", *words, image, "600")
    pids = [pid for rank in (0, 1) for pid in faults.pids(rank)]
    try:
        os.kill(right.daemon.pid, signal.SIGSTOP)
        hung = "a node's dockerd hangs (SIGSTOP)"
        late = "the engine of node right did not answer `docker ps` within 6 s"
        faults.told(hung, "status pair", late, Exit.NOT_DONE)
        # What is asked by others is waited for longer.
        monkeypatch.setattr(reach, "QUESTION_SECONDS", 6.0)
        faults.told("", f"launch pair --image {PATCHED}", late, Exit.UNREACHABLE)
        os.kill(right.daemon.pid, signal.SIGCONT)
        # Another command knows nothing of what these saw.
        reach._hung.clear()
        assert world.done("status", "pair")["state"] == "running"

        os.kill(right.daemon.pid, signal.SIGSTOP)
        faults.told("", "stop pair", late, Exit.UNREACHABLE)
        os.kill(right.daemon.pid, signal.SIGCONT)
        assert (faults.running(0), len(faults.running(1))) == ([], 1)

        right.kill()
        dead = "kill -9 of a node's dockerd"
        gone = f"no engine answers at {right.host}"
        faults.told(dead, "status pair", gone, Exit.NOT_DONE)
        faults.told(dead, f"launch pair --image {PATCHED}", gone, Exit.UNREACHABLE)
        faults.told(dead, "stop pair", gone, Exit.UNREACHABLE)
        right.again()
        began = time.monotonic()
        world.done("launch", "pair", "--image", PLAIN)
        assert world.answers()
        faults.row(
            "kill -9 of a node's dockerd, which is started again",
            "the next `launch` brings the group up",
            began,
            "the group answered",
        )
        right.docker("start", "stranger")
        pids += [pid for rank in (0, 1) for pid in faults.pids(rank)]
        for rank in (0, 1):
            faults.act("exec", "touch", str(ours), rank=rank)
        world.done("stop", "pair")
        assert [it.docker("ps", "--all", "--format", "{{.Names}}").stdout.split() for it in (left, right)] == [
            [],
            ["stranger"],
        ]
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        for port in (world.api, world.master):
            with socket.create_server(("", port)):
                pass
        assert (ours.exists(), stranger.exists()) == (False, True)
    finally:
        with suppress(ProcessLookupError):
            os.kill(right.daemon.pid, signal.SIGCONT)
        right.docker("rm", "--force", "stranger", check=False)
        stranger.unlink()
