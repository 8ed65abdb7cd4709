"""Processes that proofs run in: one for every source tree, started at the first question and ended with the session."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from recipe.config.paths import CHECKOUT
from scripts.demo import install
from tests.proofs import trees

Observe = Callable[[Path, str, bool], Any]


@pytest.fixture(scope="session")
def observe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observe]:
    """`observe(proof, release, patched)`: what the proof's observe() returns on that tree.

    Fails the test with the traceback of an observe() that raises.
    """
    with ExitStack() as stack:

        @cache
        def process(release: str, patched: bool) -> subprocess.Popen[str]:
            tree = trees.released(release)
            if patched:
                tree = trees.patched(release, tmp_path_factory.mktemp("patched") / release)
            return stack.enter_context(_process(tree))

        def ask(proof: Path, release: str, patched: bool) -> Any:
            running = process(release, patched)
            assert running.stdin is not None and running.stdout is not None
            running.stdin.write(f"{proof}\n")
            running.stdin.flush()
            line = running.stdout.readline()
            assert line, "the proof's process ended; see its standard error above"
            answer = json.loads(line)
            if "error" in answer:
                pytest.fail(f"{proof.name} on {release}: {answer['error']}", pytrace=False)
            return answer["saw"]

        yield ask


def _process(tree: Path) -> subprocess.Popen[str]:
    python = install.environment() / "bin" / "python"
    # Nothing but the proof decides what it sees: no plugins, no network, no settings of whoever runs the tests.
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    env = {**kept, "PYTHONPATH": str(tree), "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_PLUGINS": ""}
    command = [str(python), str(CHECKOUT / "tests/proofs/inside.py"), str(tree), str(CHECKOUT)]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
