"""The demo with real vLLM: it tells its story, and can be interrupted."""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launch.engines.process import Process, marked
from recipe.config import paths

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="vLLM's CPU build is for Linux on x86-64"
    ),
]

ROOT = paths.CHECKOUT
TELL = """
import dataclasses, json
from scripts.demo import story
print(json.dumps([dataclasses.asdict(row) for row in story.tell().rows]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A home of its own for the demo; vLLM itself stays in the cache."""
    home = tmp_path_factory.mktemp("home")
    found = {**os.environ, "HOME": str(home), "HALLMARK_CACHE": str(paths.cache()), "PYTHONPATH": str(ROOT)}
    for name in ("HALLMARK_STATE", "HALLMARK_HOME"):
        found.pop(name, None)
    yield found
    subprocess.run(command("stop", "demo"), env=state(found), cwd=ROOT, check=False, stdout=subprocess.DEVNULL)


def state(environment: dict[str, str]) -> dict[str, str]:
    return {**environment, "HALLMARK_STATE": f"{environment['HOME']}/.hallmark-demo/controller"}


def command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "hallmark"), *arguments]


def ours(environment: dict[str, str]) -> list[Process]:
    identity = Path(environment["HOME"], ".hallmark-demo/node/clusters/demo/id")
    return marked(f"demo-{identity.read_text()}/") if identity.exists() else []


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.1)


def test_an_interrupted_demo_leaves_no_process_behind(environment: dict[str, str]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "scripts.demo"],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        # A shell that runs the tests in the background has Ctrl-C ignored for all of them.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        # Two ranks and the engine and workers that they start.
        wait_for(lambda: len(ours(environment)) > 4, 900, "start of the ranks' own processes")
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=90) == 130
    finally:
        child.kill()
    assert ours(environment) == []


def test_the_demo_after_an_interrupted_one_refuses_the_bad_patch_and_rolls_back(environment: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", TELL], env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    rows: dict[str, dict[str, Any]] = {row["what"]: row for row in json.loads(done.stdout)}
    assert all(row["expected"] for row in rows.values())
    bad = rows["B: launch, drafts off by one"]
    assert bad["verdict"] == "refused: acceptance-ngram"
    assert bad["length"] < 1.15
    for good in ("A: launch", "C: launch", "roll back to A"):
        assert rows[good]["length"] > 5
    assert rows["roll back to A"]["tok_s"] > bad["tok_s"]
    assert ours(environment) == []

    history = json.loads(
        subprocess.run(
            command("history", "demo", "--json"), env=state(environment), cwd=ROOT, stdout=subprocess.PIPE, check=True
        ).stdout
    )["revisions"]
    a, b, c, back = history[-4:]
    assert [entry["state"] for entry in (a, b, c, back)] == ["committed", "restored", "committed", "committed"]
    assert [entry["certified"] for entry in (a, b, c, back)] == [True, False, True, True]
    assert back["restores"] == a["number"]
    assert back["digest"] == a["digest"] != c["digest"]
