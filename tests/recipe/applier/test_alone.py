"""The applier by itself: one archive, any Python that an image may have, nothing installed."""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recipe.applier import commit
from recipe.applier.patchset import PatchSet
from recipe.applier.tree import Tree

PACKAGE = Path(commit.__file__).parent
EDITS: list[dict[str, Any]] = [
    {"file": "vllm/a.py", "op": "call-keyword", "in": "run", "call": "print", "add": {"sep": "'-'", "end": "''"}},
    {"file": "vllm/a.py", "op": "parameter", "in": "run", "add": {"mode": {"default": "None"}}},
    {"file": "vllm/a.py", "op": "insert", "in": "run", "before": "print(f'{a}')", "add": "b = f'''{a\n}'''\nprint(b)"},
    {"file": "vllm/a.py", "op": "import", "add": {"import": "os"}},
    {"file": "vllm/new.py", "op": "overlay", "content": "VALUE = 'ä'\n"},
]
SOURCE = b"import sys\n\ndef run(a):\n    print(f'{a}')\n"


def pythons() -> list[str]:
    found = [sys.executable]
    for name in ("python3.12", "python3.13", "python3.14"):
        path = shutil.which(name)
        # A launcher of a version manager may be there without its Python.
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            found.append(path)
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "applier.zip"
    with zipfile.ZipFile(path, "w") as target:
        for file in PACKAGE.rglob("*.py"):
            target.write(file, f"applier/{file.relative_to(PACKAGE)}")
    return path


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(archive: Path) -> Run:
    def command(python: str, *words: object) -> "subprocess.CompletedProcess[str]":
        code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from applier.cli import main; sys.exit(main())"
        arguments = [python, "-I", "-S", "-B", "-c", code, str(archive), *map(str, words)]
        return subprocess.run(arguments, capture_output=True, text=True, check=False)

    return command


@pytest.mark.parametrize("python", pythons(), ids=lambda path: Path(path).name)
def test_every_python_makes_the_same_tree(
    python: str,
    run: Run,
    site: Callable[..., Path],
    patches: Callable[..., PatchSet],
    applied: Callable[[Path, PatchSet], list[str]],
    snapshot: Callable[[Path], object],
    tmp_path: Path,
) -> None:
    here, there = site({"vllm/a.py": SOURCE}), site({"vllm/a.py": SOURCE}, name="there")
    before = snapshot(there)
    patchset = patches(here, a=EDITS)
    applied(here, patchset)
    file = tmp_path / "patchset.json"
    # Its canonical form is what goes into an image.
    file.write_bytes(patchset.canonical())
    target = ("--target", there, "--patchset", file)
    planned = run(python, "plan", *target)
    assert (planned.returncode, json.loads(planned.stdout)["patches"]["a"]["state"]) == (0, "pending")
    done = run(python, "apply", *target)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["written"] == ["vllm/a.py", "vllm/new.py"]
    assert snapshot(there) == snapshot(here)
    assert json.loads(run(python, "apply", *target).stdout)["written"] == []
    assert json.loads(run(python, "verify", "--target", there).stdout) == {"valid": True, "reasons": []}
    assert run(python, "unapply", "--target", there).returncode == 0
    assert snapshot(there) == before
    assert run(python, "verify", "--target", there).returncode == 4


def test_what_a_user_can_cause_is_one_line_and_a_status(
    run: Run, site: Callable[..., Path], patches: Callable[..., PatchSet], tmp_path: Path
) -> None:
    root = site({"vllm/a.py": SOURCE})
    good = tmp_path / "good.json"
    good.write_bytes(patches(a=EDITS).canonical())
    drifting = tmp_path / "drifting.json"
    drifting.write_bytes(patches(a=[{**EDITS[0], "in": "runs"}], b=[{**EDITS[0], "call": "printf"}]).canonical())
    broken = tmp_path / "broken.json"
    broken.write_text('{"schema": 1}', encoding="utf-8")
    other = tmp_path / "other.json"
    other.write_text('{"schema": 7}', encoding="utf-8")
    unknown = tmp_path / "unknown.json"
    unknown.write_bytes(patches(a=[{"file": "vllm/a.py", "op": "guess"}]).canonical())
    told = {
        ("apply", "--target", root): (1, "apply needs --patchset FILE"),
        ("apply", "--target", root, "--patchset", tmp_path / "none"): (1, "there is no such file"),
        ("apply", "--target", root, "--patchset", broken): (1, "not a compiled patch set"),
        ("apply", "--target", root, "--patchset", other): (1, "patch set schema 7 is not 1"),
        ("apply", "--target", root, "--patchset", unknown): (1, "unknown operation 'guess'"),
        ("verify", "--target", tmp_path): (1, "no installed distribution owns vllm/__init__.py"),
        ("apply", "--target", root, "--patchset", drifting): (2, "nearest: vllm/a.py:3: run: def run(a):"),
    }
    for words, (status, message) in told.items():
        done = run(sys.executable, *words)
        assert (done.returncode, done.stdout) == (status, ""), words
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    assert len(run(sys.executable, "apply", "--target", root, "--patchset", drifting).stderr.splitlines()) == 2
    with commit.locked(Tree(root)):
        assert run(sys.executable, "apply", "--target", root, "--patchset", good).returncode == 6
