"""Where a patch may write: below vllm/, through no link, and in no record of an installer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recipe.applier.errors import ApplierError
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.tree import Tree

INFO = "vllm-0.33.0.dist-info"
A, B = b"VALUE = 1\n\ndef run():\n    return VALUE\n", b"VALUE = 2\n"
EDIT = {"file": "vllm/a.py", "op": "replace", "in": "run", "old": "VALUE", "new": "9"}
OVERLAY = {"file": "vllm/new/c.py", "op": "overlay", "content": "VALUE = 3\n"}

Make = Callable[..., Path]
Patches = Callable[..., PatchSet]
Take = Callable[[Path], dict[str, tuple[object, ...]]]
Apply = Callable[[Path, PatchSet], list[str]]


@pytest.fixture
def root(site: Make) -> Path:
    return site({"vllm/a.py": A, "vllm/other.py": b"X = 1\n"}, {"other": {"other/b.py": B}})


@pytest.mark.parametrize(
    "file", ["/etc/x.py", "../x.py", "vllm/../x.py", "./vllm/a.py", "vllm//a.py", "vllm\\a.py", "vllm/a\n.py", ""]
)
def test_a_path_that_is_not_plain_is_refused(file: str, root: Path, patches: Patches) -> None:
    with pytest.raises(ApplierError, match="is not a plain relative path") as refused:
        plan(Tree(root), patches(a=[{**OVERLAY, "file": file}]))
    assert refused.value.exit == 1


@pytest.mark.parametrize(
    "edit",
    [
        {"file": f"{INFO}/RECORD", "op": "text", "old": "vllm/a.py", "new": "vllm/b.py", "count": 1},
        {**OVERLAY, "file": f"{INFO}/PATCHES.json"},
        {**OVERLAY, "file": "vllm/__pycache__/c.py"},
        {**OVERLAY, "file": "vllm/c.pth"},
        {**OVERLAY, "file": "sitecustomize.py"},
        {**OVERLAY, "file": "other/new.py"},
        {**OVERLAY, "file": "other/new.py", "replaces": ["0" * 64]},
    ],
    ids=lambda edit: f"{edit['op']} {edit['file']}",
)
def test_the_records_of_installers_and_places_outside_of_vllm_take_no_file(
    edit: dict[str, Any], root: Path, patches: Patches
) -> None:
    with pytest.raises(ApplierError, match=r"is no file of a package|is no place for a new file") as refused:
        plan(Tree(root), patches(a=[edit]))
    assert refused.value.exit == 1


@pytest.mark.parametrize("file", ["vllm/link.py", "vllm/linked/c.py", "vllm/dangling.py"])
def test_a_symbolic_link_is_not_followed(
    file: str, root: Path, tmp_path: Path, patches: Patches, snapshot: Take
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c.py").write_bytes(A)
    (root / "vllm/link.py").symlink_to(root / "vllm/a.py")
    (root / "vllm/linked").symlink_to(outside)
    (root / "vllm/dangling.py").symlink_to(outside / "new.py")
    for edit in ({**EDIT, "file": file}, {**OVERLAY, "file": file}):
        with pytest.raises(ApplierError, match="is a symbolic link; links are not followed") as refused:
            plan(Tree(root), patches(a=[edit]))
        assert refused.value.exit == 2
    assert sorted(outside.iterdir()) == [outside / "c.py"]


def test_caches_of_bytecode_are_not_followed_out_of_the_tree(
    root: Path, tmp_path: Path, patches: Patches, applied: Apply
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.cpython-36.pyc").write_bytes(b"")
    (root / "vllm/__pycache__").symlink_to(outside)
    applied(root, patches(a=[EDIT]))
    assert (outside / "a.cpython-36.pyc").exists()


def test_a_folder_in_the_place_of_a_new_file_is_a_refusal(
    root: Path, patches: Patches, applied: Apply, snapshot: Take
) -> None:
    (root / "vllm/new/c.py").mkdir(parents=True)
    before = snapshot(root)
    with pytest.raises(ApplierError, match="is a folder, where a file is to be put") as refused:
        applied(root, patches(a=[OVERLAY]))
    assert refused.value.exit == 2
    assert snapshot(root) == before


def test_a_file_in_the_place_of_a_new_folder_is_a_refusal(
    root: Path, patches: Patches, applied: Apply, snapshot: Take
) -> None:
    before = snapshot(root)
    with pytest.raises(ApplierError, match="nothing was changed") as refused:
        applied(root, patches(a=[{**OVERLAY, "file": "vllm/a.py/c.py"}]))
    assert refused.value.exit == 2
    assert snapshot(root) == before
