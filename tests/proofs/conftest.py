"""The interpreter that proofs run in, started at the first question and ended with the session."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
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

    @cache
    def tree(release: str, patched: bool) -> Path:
        if not patched:
            return trees.released(release)
        return trees.patched(release, tmp_path_factory.mktemp("patched") / release)

    with _interpreter() as running:

        def ask(proof: Path, release: str, patched: bool) -> Any:
            assert running.stdin is not None and running.stdout is not None
            running.stdin.write(f"{tree(release, patched)}\t{proof}\n")
            running.stdin.flush()
            answer = json.loads(running.stdout.readline() or '{"error": "the interpreter ended"}')
            if "error" in answer:
                pytest.fail(f"{proof.name} on {release}: {answer['error']}", pytrace=False)
            return answer["saw"]

        yield ask


def _interpreter() -> subprocess.Popen[str]:
    python = install.environment() / "bin" / "python"
    # Nothing but the proof decides what it sees: no plugins, no network, no settings of whoever runs the tests.
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    env = {**kept, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_PLUGINS": ""}
    command = [str(python), str(CHECKOUT / "tests/proofs/inside.py"), str(CHECKOUT)]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
