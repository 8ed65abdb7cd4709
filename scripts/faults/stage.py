"""The cluster that faults are played on: two ranks as processes of this machine, in a folder of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from launch.engines.process import marked
from recipe.config import paths
from recipe.errors import HallmarkError
from scripts.demo import install

_ROOT = paths.CHECKOUT
_PATIENCE = 400.0


@dataclass(frozen=True)
class Ended:
    """How a command ended: status, the last of what it told, and seconds."""

    status: int
    told: str
    seconds: float


class Stage:
    """`home`: the project; `cluster`: the cluster's file; `other`: another profile for it; `folder` has its `node` and
    `state`; `api` is the head's port."""

    def __init__(self, home: Path, cluster: Path, other: str, folder: Path, api: int) -> None:
        self.home, self.cluster, self.other, self.folder, self.api = home, cluster, other, folder, api
        self._environment = {**os.environ, "HALLMARK_STATE": str(folder / "state")}

    @property
    def starting(self) -> str:
        """The profile whose start takes long enough for a rank to be lost in it."""
        return self.other

    def begin(self, *words: str) -> "subprocess.Popen[str]":
        """Start `hallmark` in a session of its own; what it tells can be read, and ends when it takes too long."""
        command = subprocess.Popen(
            self._argv(words),
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        limit = threading.Timer(_PATIENCE, command.kill)
        limit.daemon = True
        limit.start()
        return command

    def run(self, *words: str) -> Ended:
        """Run `hallmark` to its end."""
        began = time.monotonic()
        command = self.begin(*words)
        _, told = command.communicate()
        return Ended(command.returncode, told, time.monotonic() - began)

    def done(self, *words: str) -> Ended:
        """Run what must succeed. Errors: HallmarkError."""
        ended = self.run(*words)
        if ended.status:
            raise HallmarkError(f"hallmark {' '.join(words)} ended with {ended.status}:\n{ended.told}")
        return ended

    def asked(self, *words: str) -> tuple[int, Any]:
        """Exit status and document of a command that looks."""
        argv = self._argv([*words, "--json"])
        done = subprocess.run(argv, env=self._environment, stdout=subprocess.PIPE, timeout=_PATIENCE, check=False)
        return done.returncode, json.loads(done.stdout)

    def _argv(self, words: Sequence[str]) -> list[str]:
        return [str(Path(sys.executable).parent / "hallmark"), "--home", str(self.home), *words]

    def until_told(self, command: "subprocess.Popen[str]", text: str) -> None:
        """Wait until a command that was begun tells this."""
        assert command.stderr is not None
        told = []
        for line in iter(command.stderr.readline, ""):
            if text in line:
                return
            told.append(line)
        raise HallmarkError(f"the command ended without telling {text!r}: {''.join(told)}")

    def rest(self, command: "subprocess.Popen[str]") -> str:
        """What a command tells until it ends."""
        assert command.stderr is not None
        told = command.stderr.read()
        command.wait()
        return told

    def answers(self) -> bool:
        """Whether a completion of ten tokens comes back."""
        body = json.dumps({"model": "tiny", "prompt": "one two", "max_tokens": 10}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.api}/v1/completions", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return bool(json.load(reply)["usage"]["completion_tokens"] == 10)
        except (OSError, ValueError):
            return False

    def pids(self, rank: int, name: str | None = None) -> list[int]:
        """The processes of a rank: its main one, or those whose title has this in it."""
        found = [it for it in marked(self.owner()) if it.rank == rank]
        if name is None:
            return [it.pid for it in found if it.main]
        return [it.pid for it in found if name in _title(it.pid)]

    def owner(self) -> str:
        path = self.folder / "node" / "clusters" / "faults" / "id"
        return f"faults-{path.read_text() if path.exists() else 'none'}"

    def journal(self) -> list[dict[str, Any]]:
        path = self.folder / "node" / "clusters" / "faults" / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


def until(holds: Callable[[], object], seconds: float = _PATIENCE) -> float:
    """Wait for something; how long that took. Errors: HallmarkError."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise HallmarkError(f"it did not happen within {seconds:.0f} s")
        time.sleep(0.1)
    return time.monotonic() - began


@contextmanager
def stage(api: int = 18200, master: int = 18210) -> Iterator[Stage]:
    """Two real vLLM ranks; at the end nothing of it runs or is left."""
    venv = install.environment()
    with tempfile.TemporaryDirectory(prefix="hallmark-faults-") as name:
        folder = Path(name)
        install.model(venv, folder / "models" / "tiny-cycle")
        other = str(_ROOT / "scripts" / "demo" / "profiles" / "cpu-dev-c.yaml")
        made = Stage(_ROOT, folder / "faults.yaml", other, folder, api)
        nodes = [
            {"name": f"node-{it}", "address": "local", "fabric": f"127.0.0.{at}"} for at, it in ((1, "a"), (2, "b"))
        ]
        values = {
            "profile": str(_ROOT / "configs" / "profiles" / "cpu-dev.yaml"),
            "engine": "process",
            "nodes": nodes,
            "paths": {"state": str(folder / "node"), "models": str(folder / "models"), "venv": str(venv)},
            "ports": {"api": api, "master": master},
        }
        made.cluster.write_text(yaml.safe_dump(values))
        try:
            yield made
        finally:
            made.run("stop", str(made.cluster))
            for process in marked(made.owner()):
                os.kill(process.pid, signal.SIGKILL)


def _title(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/comm").read_bytes()
    except OSError:
        return ""
    return words.replace(b"\0", b" ").decode(errors="replace")
