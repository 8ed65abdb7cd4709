"""The demo's steps: A is certified, B is refused by its acceptance, C is certified, and A comes back."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from launch.nodes.lock import Lock, locked
from launch.nodes.shelf import Shelf
from launch.plan.place import Place
from recipe.config.load import load_cluster, load_profile
from recipe.errors import HallmarkError
from scripts.demo import install
from scripts.demo.watch import Watch

_ROOT = Path(__file__).resolve().parents[2]
_PROFILES = _ROOT / "scripts" / "demo" / "profiles"
HOME = Path.home() / ".hallmark-demo"
CLUSTER = "demo"


@dataclass(frozen=True)
class Row:
    """One line of the table. `group` are the seconds of the ranks' own starts and stops, `tool` all others;
    `tok_s` and `length` come from the acceptance gate's own completions; `outage` are the seconds for which
    somebody who asked all the time got no answer."""

    what: str
    verdict: str
    expected: bool
    seconds: float
    group: float = 0.0
    tool: float = 0.0
    tok_s: float | None = None
    length: float | None = None
    moves: bool = False
    outage: float | None = None


@dataclass
class Story:
    """What happened. `install` seconds are apart: they depend on the network."""

    install: float = 0.0
    rows: list[Row] = field(default_factory=list)

    def as_it_should_be(self) -> bool:
        return bool(self.rows) and all(row.expected for row in self.rows)


def tell() -> Story:
    """Run all steps. Errors: HallmarkError when a step cannot be done at all; Busy while another demo runs."""
    turn = Lock([Shelf(Place("here", "local"), str(HOME / "turn"), "demo")])
    with locked(turn, "make demo"), interruptible():
        return _tell()


def _tell() -> Story:
    told = Story()
    began = time.monotonic()
    venv = install.environment()
    install.model(venv, HOME / "models" / "tiny-cycle")
    told.install = time.monotonic() - began
    _hallmark(told, "stop what an earlier demo left", "stop", CLUSTER)
    told.rows.clear()
    if not (HOME / "controller" / "keys" / "demo.key").exists():
        _hallmark(told, "make a key", "key", "new", "demo")
    _hallmark(told, "A: launch", "launch", CLUSTER, "-m", "A, the demo's first image")
    _hallmark(told, "A: certify", "certify", CLUSTER, "--key", "demo")
    bad = str(_PROFILES / "cpu-dev-bad.yaml")
    _hallmark(told, "B: launch, drafts off by one", "launch", CLUSTER, "--profile", bad, refused=True)
    _hallmark(told, "A answers again", "status", CLUSTER)
    other = str(_PROFILES / "cpu-dev-c.yaml")
    _hallmark(told, "C: launch", "launch", CLUSTER, "--profile", other, "-m", "C, one patch more")
    _hallmark(told, "C: certify", "certify", CLUSTER, "--key", "demo")
    with Watch(*_served()) as watch:
        _hallmark(told, "roll back to A", "rollback", CLUSTER, "-m", "back to what was proven")
    told.rows[-1] = replace(told.rows[-1], outage=watch.outage)
    _hallmark(told, "A answers again", "status", CLUSTER)
    _hallmark(told, "stop", "stop", CLUSTER)
    return told


def _served() -> tuple[str, str]:
    """The address and model of the demo's group."""
    cluster = load_cluster(_ROOT, CLUSTER).value
    served = load_profile(_ROOT, cluster.profile).value.serve["served-model-name"]
    return f"http://127.0.0.1:{cluster.ports.api}", str(served)


@contextmanager
def interruptible() -> Iterator[None]:
    """On Ctrl-C, SIGTERM or SIGHUP leave no process behind: end the command that runs, then stop the group."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, (KeyboardInterrupt, HallmarkError)):
            raise
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        print("demo: stopping what runs", file=sys.stderr)
        subprocess.run(_command("stop", CLUSTER), env=_environment(), check=False, stdout=subprocess.DEVNULL)
        raise


def _hallmark(told: Story, what: str, *arguments: str, refused: bool = False) -> None:
    """Run one command; its progress goes to the terminal, its document becomes a row."""
    print(f"\n── {what}: hallmark {' '.join(arguments)}", file=sys.stderr, flush=True)
    began = time.monotonic()
    # A session of its own: Ctrl-C must reach this script alone, which then decides.
    child = subprocess.Popen(
        _command(*arguments, "--json"), env=_environment(), stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    try:
        output, _ = child.communicate()
    except BaseException:
        child.kill()
        child.wait()
        raise
    seconds = time.monotonic() - began
    try:
        document = json.loads(output)
    except ValueError:
        raise HallmarkError(f"hallmark {arguments[0]} ended with {child.returncode} and no document") from None
    expected = child.returncode == (2 if refused else 0)
    told.rows.append(_row(what, arguments[0], document, expected, seconds))
    if not expected and not refused:
        raise HallmarkError(f"hallmark {' '.join(arguments)} ended with exit status {child.returncode}")


def _row(what: str, command: str, document: dict[str, Any], expected: bool, seconds: float) -> Row:
    found = document.get("error", document)
    group = sum(step["seconds"] for step in found.get("steps", []) if step["of"] == "group")
    acceptance = next((gate for gate in _gates(found) if gate["kind"] == "acceptance" and gate["raw"]), None)
    # Inconclusive is not failed: the watch asks while the group that is rolled back to is judged.
    failed = [gate["name"] for gate in _gates(found) if gate["verdict"] == "fail"]
    if "error" in document:
        verdict = f"refused: {', '.join(failed) or found['message']}"
    elif command == "status":
        verdict = f"revision {found['revision']} {found['state']}"
    elif command == "certify":
        verdict = f"certified, {len(found['gates'])} gates"
    elif command in ("launch", "rollback"):
        verdict = f"revision {found['revision']}, {len(_gates(found))} gates"
    else:
        verdict = "done"
    return Row(
        what,
        verdict,
        expected and (not failed or "error" in document),
        seconds,
        group if command != "stop" else seconds,
        found.get("tool_seconds", 0.0),
        _tok_s(acceptance),
        acceptance["value"] if acceptance else None,
        command in ("launch", "rollback"),
    )


def _gates(document: dict[str, Any]) -> list[dict[str, Any]]:
    gates = document.get("gates", [])
    return gates if isinstance(gates, list) else []


def _tok_s(gate: dict[str, Any] | None) -> float | None:
    answers = [answer for answer in gate["raw"]["answers"] if "tokens" in answer] if gate else []
    seconds = sum(answer["seconds"] for answer in answers)
    return sum(answer["tokens"] for answer in answers) / seconds if seconds else None


def _command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "hallmark"), "--home", str(_ROOT), *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, "HALLMARK_STATE": str(HOME / "controller")}
