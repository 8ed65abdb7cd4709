"""The applier by itself: one archive, any Python that an image may have, nothing installed."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recipe.applier import cli, commit
from recipe.applier.patchset import PatchSet
from recipe.applier.tree import Tree
from recipe.applier.walk import fingerprint
from recipe.image import pyz
from scripts.figures.pythons import pythons

PACKAGE = Path(commit.__file__).parent
EDITS: list[dict[str, Any]] = [
    {"file": "vllm/a.py", "op": "call-keyword", "in": "run", "call": "print", "add": {"sep": "'-'", "end": "''"}},
    {"file": "vllm/a.py", "op": "parameter", "in": "run", "add": {"mode": {"default": "None"}}},
    {"file": "vllm/a.py", "op": "insert", "in": "run", "before": "print(f'{a}')", "add": "b = f'''{a\n}'''\nprint(b)"},
    {"file": "vllm/a.py", "op": "import", "add": {"import": "os"}},
    {"file": "vllm/new.py", "op": "overlay", "content": "VALUE = 'ä'\n"},
]
ODD = r'''"""größe 🫨"""
from __future__ import annotations
@decorated(x := 1, *a, **b)
async def run(a, /, b: int = 1_000, *c, d=-0.5, **e) -> "f":
    match a:
        case {"x": [1, *rest], **more} if (n := len(rest)) > 1:
            yield f"{a!r:>{b}} {b=} {{}}" "ä" rf"{c}\d" u"x"
    with (open(a) as f, open(b) as g):
        return [i async for i in f if not ...] or {**e, 1j: {*c}}
    try:
        del a[1:2, ::3]
    except ValueError:
        nonlocal_ = lambda *, z=0: z
'''
SOURCE = b"import sys\n\ndef run(a):\n    print(f'{a}')\n"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / pyz.NAME
    path.write_bytes(pyz.pack())
    return path


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(archive: Path) -> Run:
    def command(python: str, *words: object) -> "subprocess.CompletedProcess[str]":
        arguments = [python, "-I", "-S", "-B", str(archive), *map(str, words)]
        return subprocess.run(arguments, capture_output=True, text=True, check=False)

    return command


EACH = pytest.mark.parametrize("python", pythons().values(), ids=pythons())


def test_the_archive_is_small_and_imports_the_standard_library_only(archive: Path) -> None:
    assert archive.stat().st_size < 100_000
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                assert {alias.name.partition(".")[0] for alias in node.names} <= sys.stdlib_module_names, file
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                assert str(node.module).partition(".")[0] in sys.stdlib_module_names, file


def test_the_python_of_this_run_is_among_those_that_are_tried() -> None:
    assert any(version.startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.") for version in pythons())


@EACH
def test_every_python_has_the_same_fingerprints(python: str, archive: Path) -> None:
    code = (
        "import ast, sys; sys.path.insert(0, sys.argv[1]); from applier.walk import fingerprint;"
        "print(fingerprint(ast.parse(sys.stdin.buffer.read())))"
    )
    done = subprocess.run(
        [python, "-I", "-S", "-c", code, str(archive)], input=ODD.encode(), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == fingerprint(ast.parse(ODD))


@EACH
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
    kinds: dict[tuple[object, ...], tuple[int, str]] = {}
    for text in (
        "null",
        "[]",
        '{"schema": 1, "vllm": "0.33.0", "baseline": {}, "patches": 3}',
        '{"schema": 1, "vllm": "0.33.0", "baseline": {}, "patches": [{}]}',
        patches(a=[{"op": "insert"}]).canonical().decode(),
    ):
        file = tmp_path / f"kind-{len(kinds)}.json"
        file.write_text(text, encoding="utf-8")
        kinds["apply", "--target", root, "--patchset", file] = (1, "not a compiled patch set")
    lacking = tmp_path / "lacking.json"
    lacking.write_bytes(patches(a=[{"file": "vllm/a.py", "op": "insert", "before": "x"}]).canonical())
    told: dict[tuple[object, ...], tuple[int, str]] = {
        **kinds,
        ("apply", "--target", root, "--patchset", lacking): (1, "the edit insert is not complete: KeyError('add')"),
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


def test_an_interrupt_is_one_line_and_the_status_that_a_shell_knows(
    site: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(tree: Tree) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(commit, "verify", interrupted)
    assert cli.main(["verify", "--target", str(site({"vllm/a.py": SOURCE}))]) == 130
    assert capsys.readouterr().err == "applier: interrupted\n"


def test_a_python_that_is_too_old_is_told_which_one_to_take(archive: Path) -> None:
    code = f"import runpy, sys; sys.version_info = (3, 9, 18); runpy.run_path({str(archive)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    expected = "applier: this is Python 3.9 - run it with Python 3.10 or newer\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)


def test_of_several_appliers_at_once_each_is_done_or_told_that_the_tree_is_busy(
    archive: Path, site: Callable[..., Path], patches: Callable[..., PatchSet], tmp_path: Path
) -> None:
    root = site({"vllm/a.py": SOURCE})
    started = []
    for number in range(6):
        file = tmp_path / f"{number}.json"
        content = f"VALUE = {number}\n"
        file.write_bytes(patches(a=EDITS, b=[{**EDITS[-1], "file": "vllm/b.py", "content": content}]).canonical())
        command = [sys.executable, "-I", "-S", "-B", str(archive), "apply", "--target", str(root)]
        started.append(
            subprocess.Popen([*command, "--patchset", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        )
    told = [process.communicate()[1].decode() for process in started]
    assert {process.returncode for process in started} <= {0, 6}
    assert 0 in {process.returncode for process in started}
    assert all("another applier works on this tree" in text for text in told if text)
    assert commit.verify(Tree(root)) == []
    with commit.locked(Tree(root)):
        pass
