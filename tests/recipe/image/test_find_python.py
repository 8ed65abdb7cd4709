"""The shell lines that find vLLM's interpreter in an image, run by this machine's shell."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recipe.config.paths import CHECKOUT
from tests.standin import venv

FILE = CHECKOUT / "dockerfiles" / "find-python.sh"


def found(path: Path) -> "subprocess.CompletedProcess[str]":
    """Source the file with only these programs and the shell's own helpers on PATH."""
    for tool in ("sed", "sh"):
        (path / tool).symlink_to(str(shutil.which(tool)))
    words = f'. {FILE} && echo "$python" && echo "$site"'
    return subprocess.run(["sh", "-c", words], env={"PATH": str(path)}, check=False, capture_output=True, text=True)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def python(path: Path, site: Path | None) -> None:
    """An interpreter that finds vLLM in `site`, or nowhere."""
    more = f"PYTHONPATH={site}" if site else ""
    path.write_text(f'#!/bin/sh\n{more} exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)


def test_the_interpreter_of_the_program_vllm_comes_first(programs: Path, tmp_path: Path) -> None:
    mine, other = venv.make(tmp_path / "mine"), venv.make(tmp_path / "other")
    python(programs / "python3", other)
    python(programs / "special", mine)
    (programs / "vllm").write_text(f"#!{programs / 'special'}\n")
    (programs / "vllm").chmod(0o755)
    assert found(programs).stdout.splitlines() == [str(programs / "special"), str(mine)]


def test_env_in_the_first_line_is_understood(programs: Path, tmp_path: Path) -> None:
    mine = venv.make(tmp_path / "mine")
    python(programs / "python9", mine)
    (programs / "env").symlink_to("/usr/bin/env")
    (programs / "vllm").write_text(f"#!{programs / 'env'} python9\n")
    (programs / "vllm").chmod(0o755)
    assert found(programs).stdout.splitlines() == [f"{programs / 'env'} python9", str(mine)]


def test_without_the_program_the_first_python_with_vllm_is_taken(programs: Path, tmp_path: Path) -> None:
    mine = venv.make(tmp_path / "mine")
    python(programs / "python3", None)
    python(programs / "python", mine)
    assert found(programs).stdout.splitlines() == ["python", str(mine)]


def test_an_image_without_vllm_is_told_in_one_line(programs: Path) -> None:
    python(programs / "python3", None)
    done = found(programs)
    assert done.returncode == 1
    assert done.stderr == "hallmark: no Python in this base image has vLLM — name an image with vLLM as the base\n"


def test_it_is_clean_shell() -> None:
    shellcheck = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([str(shellcheck), str(FILE)], check=False, capture_output=True, text=True, env=os.environ)
    assert done.stdout == ""
