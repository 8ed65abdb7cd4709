"""Which Pythons this machine has: those that an image may bring, so the ones that the applier must run on."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

MINORS = range(10, 15)
_ASK = "import platform, sys; print(*sys.version_info[:2], platform.python_version(), sys.executable)"


@cache
def pythons() -> dict[str, str]:
    """Version → interpreter, one of each minor release from 3.10 to 3.14: from PATH, else from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[int, tuple[str, str]] = {}
    for minor in MINORS:
        installed = sorted(pyenv.glob(f"3.{minor}.*/bin/python3"), key=lambda path: _numbers(path.parent.parent.name))
        for candidate in (shutil.which(f"python3.{minor}"), *map(str, reversed(installed))):
            # A launcher of a version manager may be there without its Python.
            answer = _ask(candidate) if candidate else None
            if answer is not None and candidate is not None and answer[0] == minor:
                found[minor] = (answer[1], candidate)
                break
    return dict(found.values())


def _ask(python: str) -> tuple[int, str] | None:
    done = subprocess.run([python, "-I", "-S", "-c", _ASK], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return (int(words[1]), words[2]) if done.returncode == 0 and len(words) > 2 else None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
