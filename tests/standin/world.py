"""A project, a cluster and a StandIn of vLLM in a folder of their own, and ways to run `hallmark` on them."""

import json
import os
import platform
import random
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.cli.main import main
from launch.engines.process import Process, marked
from launch.group.journal import Journal
from launch.ledger.store import Store
from recipe.config.load import Loaded, load_cluster
from recipe.config.models import Cluster
from tests.standin import venv

DEADLINE = 30.0
CLUSTER = "pair"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}

# By patch: the line of behaviour.py that it replaces, and by what.
BEHAVIOURS = {
    "greets": ('GREETING = "plain"', 'GREETING = "patched"'),
    "warns": ('GREETING = "plain"', 'GREETING = "raise the limit, else OSError follows"'),
    "collapses": ("DRAFT_SHIFT = 0", "DRAFT_SHIFT = 1"),
    "fails-at-start": ("FAIL_AT_START: tuple[int, ...] = ()", "FAIL_AT_START: tuple[int, ...] = (1,)"),
    "hangs-at-start": ("HANG_AT_START: tuple[int, ...] = ()", "HANG_AT_START: tuple[int, ...] = (1,)"),
    "spins-unanswered": ("DEAF_STORE = False", "DEAF_STORE = True"),
    "hangs-on-requests": ("HANG_COMPLETIONS = False", "HANG_COMPLETIONS = True"),
    "dies-after-ready": ("ANSWERS_BEFORE_DEATH = 1_000_000", "ANSWERS_BEFORE_DEATH = 3"),
    "misses-its-line": ("GREETING = 'another'", "GREETING = 'more'"),
}

GATES: dict[str, dict[str, Any]] = {
    "answers": {
        "kind": "answers",
        "summary": "counts",
        "prompts": [{"prompt": "count", "expect": {"contains": "one two three"}}],
    },
    "acceptance": {
        "kind": "acceptance",
        "summary": "drafts are accepted",
        "prompts": ["count"],
        "max-tokens": 64,
        "min-mean-length": 2.0,
        "min-drafts": 8,
    },
    "log": {
        "kind": "logs",
        "summary": "started",
        "required": [{"pattern": "startup complete", "ranks": "head", "because": "it serves"}],
    },
    "patchset": {
        "kind": "metric",
        "summary": "runs what was launched",
        "metric": "hallmark:patchset_info",
        "labels": {"patchset": "launched"},
        "equals": 1,
    },
}


@dataclass(frozen=True)
class Result:
    """How a command ended: exit status, standard output and standard error."""

    exit: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document of standard output."""
        found: dict[str, Any] = json.loads(self.out)
        return found


class World:
    """`home` is the project's root, `state` and `cache` are HALLMARK_STATE and HALLMARK_CACHE."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.state, self.cache = root / "home", root / "state", root / "cache"
        self.venv, self.models, self.node = root / "venv", root / "models", root / "node"
        self.patches = monkeypatch
        # Where the head's API is.
        self.host = "127.0.0.1"
        monkeypatch.setenv("HALLMARK_STATE", str(self.state))
        monkeypatch.setenv("HALLMARK_CACHE", str(self.cache))
        monkeypatch.delenv("HALLMARK_HOME", raising=False)
        self.site = venv.make(self.venv)
        (self.models / "tiny").mkdir(parents=True)
        (self.models / "tiny" / "config.json").write_text("{}")
        self.api, self.master = free_ports(2)
        self.write("support.yaml", {"rows": []})
        self.hardware()
        for name, gate in GATES.items():
            self.write(f"gates/{name}.yaml", gate)
        for name, (old, new) in BEHAVIOURS.items():
            self.write(f"patches/{name}.yaml", _patch(name, old, new))
        # Revision A, its bad successor B, and its good one C.
        self.profile("a")
        self.profile("b", "collapses")
        self.profile("c", "greets")
        self.cluster()

    def write(self, file: str, content: dict[str, Any]) -> Path:
        """A file of configs/."""
        path = self.home / "configs" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    def hardware(self, **changes: Any) -> None:
        """The hardware file of every profile."""
        values = {
            "summary": "this machine",
            "architecture": MACHINES[platform.machine()],
            "device": "cpu",
            "gpus": 1,
            "rank-memory-gib": 0.02,
        }
        self.write("hardware/here.yaml", values | changes)

    def profile(self, name: str, *patches: str, env: dict[str, str] | None = None, **changes: Any) -> None:
        """A profile of two ranks with these of BEHAVIOURS."""
        values = {
            "summary": f"the StandIn, {name}",
            "hardware": "here",
            "nodes": 2,
            "vllm": venv.VERSION,
            "model": "tiny",
            "serve": {"served-model-name": "tiny", "host": self.host, "tensor-parallel-size": 2},
            "env": {"VLLM_ENGINE_READY_TIMEOUT_S": "20"} | (env or {}),
            "container": {"gpus": False},
            "patches": {"required": [f"../patches/{patch}.yaml" for patch in patches]},
            "gates": {"trial": ["answers", "acceptance"], "certify": list(GATES)},
        }
        self.write(f"profiles/{name}.yaml", values | changes)

    def brief_trials(self) -> None:
        """Judge a and c by one gate only, where a test launches often and judges nothing."""
        for name, patches in (("a", ()), ("c", ("greets",))):
            self.profile(name, *patches, gates={"trial": ["answers"], "certify": ["answers"]})

    def cluster(self, name: str = CLUSTER, *, node: Path | None = None, **changes: Any) -> None:
        """A cluster of two local nodes that runs profile a."""
        nodes = [
            {"name": "left", "address": "local", "fabric": "127.0.0.1"},
            {"name": "right", "address": "local", "fabric": "127.0.0.2"},
        ]
        values = {
            "profile": "a",
            "engine": "process",
            "nodes": nodes,
            "paths": {"state": str(node or self.node), "models": str(self.models), "venv": str(self.venv)},
            "ports": {"api": self.api, "master": self.master},
        }
        self.write(f"clusters/{name}.yaml", values | changes)

    def run(self, *words: str) -> Result:
        """Run `hallmark` with these words in this process; in groups of tests that is a second less each time."""
        out, err = StringIO(), StringIO()
        argv = sys.argv
        sys.argv = ["hallmark", "--home", str(self.home), *words]
        try:
            with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
                main()
        finally:
            sys.argv = argv
        return Result(int(str(ended.value.code)), out.getvalue(), err.getvalue())

    def done(self, *words: str) -> dict[str, Any]:
        """The document of a command that must succeed."""
        result = self.run(*words, "--json")
        assert result.exit == 0, result.err
        return result.document

    def begin(self, *words: str, before: Callable[[], None] | None = None) -> "Command":
        """Start `hallmark` in a process of its own; `before` changes that process only."""
        return Command(self, words, before)

    def store(self, cluster: str = CLUSTER) -> Store:
        return Store(self.loaded(cluster))

    def loaded(self, cluster: str = CLUSTER) -> Loaded[Cluster]:
        return load_cluster(self.home, cluster)

    def journal(self) -> Journal:
        """The journal, read and checked."""
        return self.store().journal()

    def processes(self, cluster: str = CLUSTER) -> list[Process]:
        """Every process of the cluster, whatever its revision."""
        store = self.store(cluster)
        return marked(store.owner()) if (store.folder / "id").exists() else []

    def running(self) -> list[int]:
        """The revisions that have processes."""
        return sorted({int(process.group.rpartition("/r")[2]) for process in self.processes()})

    def pid(self, rank: int, *, main: bool) -> int:
        [pid] = [process.pid for process in self.processes() if process.rank == rank and process.main is main]
        return pid

    def greeting(self) -> str:
        """What the head that runs wrote about itself: "plain" is profile a, "patched" profile c."""
        [revision] = self.running()
        return (self.store().logs(revision) / "left.log").read_text().splitlines()[0].rpartition(" ")[2]

    def answers(self) -> bool:
        """Whether a completion comes back."""
        body = json.dumps({"model": "tiny", "prompt": "count", "max_tokens": 10}).encode()
        request = urllib.request.Request(f"http://{self.host}:{self.api}/v1/completions", body)
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return bool(json.load(reply)["choices"])
        except OSError:
            return False

    def end(self) -> None:
        """Leave nothing behind, whatever a test did."""
        for folder in self.home.glob("configs/clusters/*.yaml"):
            for process in self.processes(folder.stem):
                os.kill(process.pid, signal.SIGKILL)


class Command:
    """A `hallmark` that runs in a process of its own."""

    def __init__(self, world: World, words: tuple[str, ...], before: Callable[[], None] | None) -> None:
        self._out, self._err = (world.home / f".{name}-{random.getrandbits(32):x}" for name in ("out", "err"))
        self.pid = os.fork()
        if self.pid == 0:
            self._child(world, words, before)

    def wait(self, seconds: float = DEADLINE) -> Result:
        """The end of it; a process that a signal killed has the exit status that a shell gives it."""
        ends = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > ends:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                pytest.fail(f"did not end within {seconds} s: {self._err.read_text()}")
            time.sleep(0.005)
        code = os.waitstatus_to_exitcode(status)
        return Result(code if code >= 0 else 128 - code, self._out.read_text(), self._err.read_text())

    def says(self, text: str) -> None:
        """Wait until its progress has this text."""
        until(lambda: self._err.is_file() and text in self._err.read_text())

    def heard(self) -> str:
        """Its standard output so far."""
        return self._out.read_text() if self._out.is_file() else ""

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def _child(self, world: World, words: tuple[str, ...], before: Callable[[], None] | None) -> None:
        code = 99
        try:
            for path, descriptor in ((self._out, 1), (self._err, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # The tests themselves may run under nohup, and end in order.
            for number in (signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            if before is not None:
                before()
            sys.argv = ["hallmark", "--home", str(world.home), *words]
            main()
        except SystemExit as ended:
            code = int(str(ended.code))
        except BaseException as error:
            print(f"Traceback: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def until(holds: Callable[[], object]) -> None:
    """Wait for something to become true. It fails after DEADLINE seconds."""
    ends = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < ends, "it did not become true"
        time.sleep(0.005)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those that the kernel gives to clients: a client that waits for its server
    on one of those can meet itself. Each process that runs tests has its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    span = 12000 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    found: list[int] = []
    while len(found) < count:
        port = 20000 + worker * span + random.randrange(span)
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def _patch(name: str, old: str, new: str) -> dict[str, Any]:
    return {
        "id": name,
        "title": f"The StandIn {name}",
        "class": "local",
        "why": "a test needs it",
        "upstream": {"none": "made for tests", "status": "not proposed", "checked": "2026-12-01"},
        "remove-when": "never",
        "edits": [{"op": "replace", "file": "vllm/behaviour.py", "when": ">=0.1", "old": old, "new": new}],
    }
