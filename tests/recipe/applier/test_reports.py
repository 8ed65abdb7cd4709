"""Failures of comparable tools that were reported in public (A1 to A7), as far as they are an applier's."""

import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recipe.applier.cli import main
from recipe.applier.patchset import PatchSet

Make = Callable[..., Path]
Patches = Callable[..., PatchSet]
INFO = "vllm-0.33.0.dist-info"


@pytest.fixture
def run(patches: Patches, tmp_path: Path) -> Callable[..., int]:
    """`run("apply", root, p1=[edits], …)`: the applier's own command with these patches."""

    def command(name: str, root: Path, *, optional: tuple[str, ...] = (), **edits: list[dict[str, Any]]) -> int:
        file = tmp_path / "patchset.json"
        file.write_bytes(patches(optional=optional, **edits).canonical())
        return main([name, "--target", str(root), "--patchset", str(file)])

    return command


Run = Callable[..., int]
P1 = {"file": "vllm/a.py", "op": "insert", "in": "run", "before": "target(x)", "add": "x = 1"}
P2 = {"file": "vllm/b.py", "op": "insert", "in": "run", "before": "target(x)", "add": "x = 1"}
BODY = b"def run(x):\n    target(x)\n"


def hashes(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_a1_every_patch_is_evaluated_and_one_that_drifts_keeps_all_from_being_written(
    site: Make, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    root = site({"vllm/a.py": b"def run(x):\n    return x\n", "vllm/b.py": BODY})
    before = hashes(root)
    assert run("plan", root, p1=[P1], p2=[P2]) == 0
    told = json.loads(capsys.readouterr().out)["patches"]
    assert {id: patch["state"] for id, patch in told.items()} == {"p1": "drift:anchor", "p2": "pending"}
    assert run("apply", root, p1=[P1], p2=[P2]) == 2
    assert hashes(root) == before
    assert run("apply", root, p1=[{**P1, "applies": False}], p2=[P2], optional=("p1",)) == 0
    told = json.loads(capsys.readouterr().out)["patches"]
    assert {id: patch["state"] for id, patch in told.items()} == {"p1": "not-applicable", "p2": "pending"}
    assert (root / "vllm/b.py").read_bytes() == b"def run(x):\n    x = 1\n    target(x)\n"


def test_a2_a_missing_anchor_is_a_failure_whose_last_lines_say_which_patch_file_and_anchor(
    site: Make, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    root = site({"vllm/a.py": BODY, "vllm/b.py": BODY})
    assert run("apply", root, p1=[{**P1, "before": "not_there(x)"}], p2=[P2]) == 2
    last = "\n".join(capsys.readouterr().err.splitlines()[-5:])
    assert "p1: vllm/a.py: run: drift:anchor" in last
    assert "not_there(x)" in last
    assert not (root / INFO / "PATCHES.json").exists()
    assert run("apply", root, p1=[P1], p2=[P2]) == 0
    report = json.loads((root / INFO / "PATCHES.json").read_bytes())
    assert {id: patch["state"] for id, patch in report["patches"].items()} == {"p1": "applied", "p2": "applied"}
    assert {file: entry["after"] for file, entry in report["files"].items()} == {
        file: hashes(root)[file] for file in ("vllm/a.py", "vllm/b.py")
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"ok = arch in [89, 121]\n", "'arch in [89, 120]' stands 0 times in <module>, not 1"),
        (b"ok = arch in [89, 120]\nno = arch in [89, 120]\n", "'arch in [89, 120]' stands 2 times in <module>, not 1"),
    ],
)
def test_a3_a_replacement_without_its_one_match_is_a_failure(
    text: bytes, told: str, site: Make, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    root = site({"vllm/a.py": text})
    edit = {"file": "vllm/a.py", "op": "text", "old": "arch in [89, 120]", "new": "arch in [89, 120, 121]", "count": 1}
    assert run("apply", root, p1=[edit]) == 2
    assert told in capsys.readouterr().err
    assert (root / "vllm/a.py").read_bytes() == text


def test_a4_a_change_made_for_one_function_never_lands_in_another_that_looks_the_same(
    site: Make, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    same = b"    y = x\n    z = y + 1\n    return z\n"
    moved = b"def beta(x):\n    return run(x)\n\ndef alpha(x):\n" + same
    root = site({"vllm/a.py": moved})
    edit = {"file": "vllm/a.py", "op": "replace", "in": "beta", "old": "z = y + 1", "new": "z = y + 2"}
    assert run("apply", root, p1=[edit]) == 2
    assert "nearest: vllm/a.py:6: alpha: z = y + 1" in capsys.readouterr().err
    assert (root / "vllm/a.py").read_bytes() == moved


def test_a5_the_state_is_told_without_writing_and_an_unknown_option_is_a_failure(
    site: Make, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    root = site({"vllm/a.py": BODY, "vllm/b.py": BODY})
    before = hashes(root)
    for path in [root, *root.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    assert run("plan", root, p1=[P1], p2=[{**P2, "before": "none"}]) == 0
    told = json.loads(capsys.readouterr().out)["patches"]
    assert {id: patch["state"] for id, patch in told.items()} == {"p1": "pending", "p2": "drift:anchor"}
    assert hashes(root) == before
    for words in (["plan", "--target", str(root), "--statsu"], ["guess", "--target", str(root)], ["plan"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 1
        assert "usage: applier" in capsys.readouterr().err
    for path in [root, *root.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)


def test_a6_line_endings_are_the_files_own_and_modes_do_not_depend_on_the_umask(
    site: Make, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    root = site({"vllm/a.py": BODY, "vllm/b.py": BODY.replace(b"\n", b"\r\n"), "vllm/c.py": b"A = 1\r\nB = 2\n"})
    mixed = {"file": "vllm/c.py", "op": "replace", "old": "1", "new": "2"}
    assert run("apply", root, p1=[mixed]) == 2
    assert "vllm/c.py mixes line endings" in capsys.readouterr().err
    code = {"add": "if x:\r\n    x = 1\r\n"}
    new = {"file": "vllm/new/deep/d.py", "op": "overlay", "content": "VALUE = 1\n"}
    modes = {path: path.stat().st_mode for path in root.rglob("*")}
    umask = os.umask(0o077)
    try:
        assert run("apply", root, p1=[{**P1, **code}, {**P2, **code}, new]) == 0
    finally:
        os.umask(umask)
    assert b"\r" not in (root / "vllm/a.py").read_bytes()
    windows = (root / "vllm/b.py").read_bytes()
    assert windows.count(b"\r\n") == windows.count(b"\n") == 4
    assert {path: path.stat().st_mode for path in modes} == modes
    assert stat.S_IMODE((root / "vllm/new/deep/d.py").stat().st_mode) == 0o644
    assert {stat.S_IMODE((root / folder).stat().st_mode) for folder in ("vllm/new", "vllm/new/deep")} == {0o755}
    assert run("apply", root, p1=[{**new, "content": "\ufeffVALUE = 1\n"}]) == 2
    assert "begins with a mark of byte order" in capsys.readouterr().err


def test_a7_an_overlay_has_one_source_and_does_not_go_over_a_file_that_it_was_not_made_for(
    site: Make, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    root = site({"vllm/a.py": BODY})
    overlay = {"file": "vllm/new.py", "op": "overlay", "content": "VALUE = 1\n"}
    assert run("apply", root, p1=[overlay], p2=[{**overlay, "content": "VALUE = 2\n"}]) == 2
    assert "p1 and p2 change the same place of vllm/new.py" in capsys.readouterr().err
    older = {**overlay, "file": "vllm/a.py", "replaces": [hashlib.sha256(b"def run(): ...\n").hexdigest()]}
    assert run("apply", root, p1=[older]) == 2
    assert f"a file is already there (sha256 {hashlib.sha256(BODY).hexdigest()})" in capsys.readouterr().err
    assert (root / "vllm/a.py").read_bytes() == BODY
