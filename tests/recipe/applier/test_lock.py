"""A patch set that carries a lock: every file is the locked one before and after, or nothing is written."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recipe.applier import commit
from recipe.applier.cli import main
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.states import refusal
from recipe.applier.tree import Tree

A, B = b"VALUE = 1\n", b"OTHER = 1\n"
EDIT = {"file": "vllm/a.py", "op": "replace", "old": "1", "new": "11"}
NEW = {"file": "vllm/new.py", "op": "overlay", "content": "VALUE = 3\n"}
Make = Callable[..., Path]
Patches = Callable[..., PatchSet]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


LOCK: dict[str, list[str | None]] = {
    "vllm/a.py": [digest(A), digest(b"VALUE = 11\n")],
    "vllm/new.py": [None, digest(b"VALUE = 3\n")],
}


def locked(patchset: PatchSet, lock: dict[str, list[str | None]], **more: Any) -> PatchSet:
    return PatchSet({**patchset.document, "lock": lock, **more})


@pytest.fixture
def root(site: Make) -> Path:
    return site({"vllm/a.py": A, "vllm/b.py": B})


def test_files_that_are_as_locked_are_patched_and_the_lock_does_not_change_the_name_of_the_patch_set(
    root: Path, patches: Patches, applied: Callable[[Path, PatchSet], list[str]]
) -> None:
    free = patches(root, a=[EDIT, NEW])
    patchset = locked(free, LOCK)
    assert patchset.sha256 == free.sha256
    assert applied(root, patchset) == ["vllm/a.py", "vllm/new.py"]
    assert applied(root, patchset) == []
    assert commit.verify(Tree(root)) == []


def test_a_file_that_is_not_the_locked_one_is_a_drift_though_every_anchor_is_found(
    root: Path, patches: Patches
) -> None:
    (root / "vllm/a.py").write_bytes(A + b"# by hand\n")
    found = plan(Tree(root), locked(patches(a=[EDIT], b=[NEW]), LOCK))
    assert {patch.id: patch.state for patch in found.patches} == {"a": "drift:context", "b": "pending"}
    (line,) = refusal(found.problems())
    assert "a: vllm/a.py: <module>: drift:context: the file is not the locked one of 0.33.0" in line
    assert digest(A) in line
    assert [change.file for change in found.changes] == ["vllm/new.py"]


@pytest.mark.parametrize(
    ("lock", "message"),
    [
        ({**LOCK, "vllm/a.py": [digest(A), digest(B)]}, "the edits make sha256 "),
        ({**LOCK, "vllm/new.py": [digest(B), digest(B)]}, "the file is not the locked one of 0.33.0 (sha256 None"),
        ({"vllm/a.py": LOCK["vllm/a.py"]}, "the edits make sha256 "),
    ],
)
def test_a_result_that_is_not_the_locked_one_is_never_written(
    lock: dict[str, list[str | None]], message: str, root: Path, patches: Patches, tmp_path: Path
) -> None:
    file = tmp_path / "patchset.json"
    file.write_bytes(locked(patches(a=[EDIT, NEW]), lock).canonical())
    assert message in "\n".join(refusal(plan(Tree(root), locked(patches(a=[EDIT, NEW]), lock)).problems()))
    assert main(["apply", "--target", str(root), "--patchset", str(file)]) == 2
    assert (root / "vllm/a.py").read_bytes() == A
    assert not (root / "vllm/new.py").exists()


def test_a_tree_patched_before_it_was_locked_is_held_to_the_lock(
    root: Path, patches: Patches, applied: Callable[[Path, PatchSet], list[str]]
) -> None:
    applied(root, patches(a=[EDIT, NEW]))
    good = plan(Tree(root), locked(patches(a=[EDIT, NEW]), LOCK))
    assert [patch.state for patch in good.patches] == ["applied"]
    bad = plan(Tree(root), locked(patches(a=[EDIT, NEW]), {**LOCK, "vllm/a.py": [digest(A), digest(B)]}))
    assert [patch.state for patch in bad.patches] == ["drift:context"]


def test_what_must_be_locked_and_is_not_is_refused(
    root: Path, patches: Patches, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "patchset.json"
    file.write_bytes(patches(a=[EDIT]).canonical())
    assert main(["apply", "--locked", "--target", str(root), "--patchset", str(file)]) == 2
    assert "the patch set has no lock for vLLM 0.33.0 — write one with `hallmark relock`" in capsys.readouterr().err
    assert (root / "vllm/a.py").read_bytes() == A
    file.write_bytes(locked(patches(a=[EDIT, NEW]), LOCK).canonical())
    assert main(["apply", "--locked", "--target", str(root), "--patchset", str(file)]) == 0


def test_a_drift_says_on_which_release_its_edit_fitted_last(root: Path, patches: Patches) -> None:
    patchset = locked(patches(a=[{**EDIT, "in": "run"}, EDIT]), {}, seen={"a": ["0.32.0", None]})
    found = plan(Tree(root), PatchSet({**patchset.document, "lock": None}))
    (line,) = refusal(found.problems())
    assert line == "a: vllm/a.py: run: drift:scope: no definition of run (last fitted 0.32.0)"
    assert [edit["seen"] for edit in found.to_json()["patches"]["a"]["edits"]] == ["0.32.0", None]
