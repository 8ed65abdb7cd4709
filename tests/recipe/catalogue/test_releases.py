"""The shipped patches against the released sources that they were written for."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from recipe.applier import commit
from recipe.applier.manifest import Manifest
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.states import Plan, refusal
from recipe.applier.tree import Sources, Tree
from recipe.catalogue.compile import compile_profile
from recipe.catalogue.diff import unified
from recipe.catalogue.wheels import Wheel, wheel
from recipe.config.load import load_hardware, load_profile
from recipe.config.paths import CHECKOUT

pytestmark = pytest.mark.wheel

PROFILES = ["gb10-nvfp4", "gb10-fp8", "h200-fp8-dspark", "cpu-dev"]
EACH = pytest.mark.parametrize("profile", PROFILES)

Install = Callable[[str, str], Path]


def compiled(profile: str) -> tuple[str, PatchSet]:
    """The distribution that a profile patches, and its patch set."""
    loaded = load_profile(CHECKOUT, profile)
    return load_hardware(CHECKOUT, loaded.value.hardware).value.distribution, compile_profile(loaded)


def applying(patchset: PatchSet) -> list[dict[str, Any]]:
    """The edits whose ranges name the release; those for other releases leave it alone."""
    return [edit for patch in patchset.patches for edit in patch["edits"] if edit["applies"]]


def state(root: Path) -> dict[str, tuple[object, ...]]:
    """Hash, mode and time of every file, mode and time of every folder."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, _, names in os.walk(root):
        for path in (Path(folder), *(Path(folder) / name for name in names)):
            status = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
            found[str(path.relative_to(root))] = (digest, status.st_mode, status.st_mtime_ns)
    return found


def states(planned: Plan) -> set[str]:
    return {patch.state for patch in planned.patches}


@EACH
def test_every_patch_is_pending_on_the_wheel_and_on_the_tree(profile: str, installed: Install) -> None:
    distribution, patchset = compiled(profile)
    sources: list[Sources] = [wheel(patchset.vllm, distribution), Tree(installed(distribution, patchset.vllm))]
    for source in sources:
        planned = plan(source, patchset)
        assert refusal(planned.problems()) == []
        assert states(planned) == {"pending"}


@EACH
def test_patches_are_applied_once_and_undone_to_the_byte(profile: str, installed: Install, unpacked: Install) -> None:
    distribution, patchset = compiled(profile)
    root = installed(distribution, patchset.vllm)
    before, original = state(root), state(unpacked(distribution, patchset.vllm))
    tree = Tree(root)
    with commit.locked(tree):
        written = commit.apply(tree, plan(tree, patchset))
    assert written == sorted({edit["file"] for edit in applying(patchset)})
    assert commit.verify(Tree(root)) == []
    changed = {path for path, entry in state(root).items() if before.get(path) != entry}
    assert changed == {*written, f"{tree.dist_info}/RECORD", f"{tree.dist_info}/PATCHES.json"}
    tree = Tree(root)
    with commit.locked(tree):
        again = plan(tree, patchset)
        assert states(again) == {"applied"}
        assert commit.apply(tree, again) == []
    # The copy that the files were linked from is a package cache to somebody.
    assert state(unpacked(distribution, patchset.vllm)) == original
    with commit.locked(tree):
        assert commit.unapply(tree) == written
    assert state(root) == before


def test_a_renamed_function_is_refused_with_the_new_name_and_nothing_is_written(installed: Install) -> None:
    distribution, patchset = compiled("gb10-nvfp4")
    root = installed(distribution, patchset.vllm)
    file = root / "vllm/models/deepseek_v4/quant_config.py"
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data.replace(b"def get_quant_method(", b"def get_quant_methods("))
    line = 1 + data[: data.index(b"def get_quant_method(")].count(b"\n")
    before = state(root)
    done = subprocess.run(
        [sys.executable, "-c", "import hallmark; hallmark.main()", "apply", "gb10-nvfp4", "--target", str(root)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "dsv4-expert-dispatch: vllm/models/deepseek_v4/quant_config.py" in done.stderr
    assert "drift:scope: no definition of DeepseekV4FP8Config.get_quant_method" in done.stderr
    candidate = f"quant_config.py:{line}: DeepseekV4FP8Config.get_quant_methods: def get_quant_methods("
    assert candidate in done.stderr
    assert "nothing was written" in done.stderr
    assert "Traceback" not in done.stderr
    assert state(root) == before


@EACH
def test_git_takes_the_diff_and_makes_the_same_bytes_of_it(profile: str, installed: Install, tmp_path: Path) -> None:
    distribution, patchset = compiled(profile)
    root = installed(distribution, patchset.vllm)
    planned = plan(Tree(root), patchset)
    patch = tmp_path / "changes.diff"
    patch.write_text(unified(planned), encoding="utf-8", newline="")
    repository = tmp_path / "repository"
    for change in planned.changes:
        if change.current is not None:
            (repository / change.file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / change.file, repository / change.file)
    git = ["git", "-c", "core.autocrlf=false", "-C", str(repository)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for options in (["--check"], []):
        subprocess.run([*git, "apply", *options, str(patch)], check=True)
    assert {change.file: (repository / change.file).read_bytes() for change in planned.changes} == {
        change.file: change.after for change in planned.changes
    }


class Renamed:
    """A release in which one function is called otherwise."""

    manifest: Manifest | None = None

    def __init__(self, release: Wheel, file: str, name: str) -> None:
        self.release, self.file, self.version = release, file, release.version
        self.old, self.new = f"def {name}(".encode(), f"def {name}_2(".encode()

    def read(self, file: str) -> bytes | None:
        data = self.release.read(file)
        return data.replace(self.old, self.new) if data is not None and file == self.file else data

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        return True

    def files(self) -> Iterable[str]:
        return self.release.files()


@EACH
def test_every_edit_in_a_function_that_is_renamed_names_its_new_name(profile: str) -> None:
    distribution, patchset = compiled(profile)
    release = wheel(patchset.vllm, distribution)
    edits = {(edit["file"], edit["in"]) for edit in applying(patchset) if "in" in edit}
    assert edits
    for file, where in sorted(edits):
        planned = plan(Renamed(release, file, where.rpartition(".")[2]), patchset)
        drifts = [edit for _, edit in planned.problems() if edit is not None]
        assert {(edit.file, edit.where, edit.state) for edit in drifts} == {(file, where, "drift:scope")}
        assert {edit.nearest.where for edit in drifts if edit.nearest} == {f"{where}_2"}


def test_one_profiles_patches_go_straight_over_anothers(installed: Install) -> None:
    distribution, first = compiled("gb10-nvfp4")
    _, second = compiled("h200-fp8-dspark")
    root = installed(distribution, first.vllm)
    before = state(root)
    tree = Tree(root)
    found = []
    for patchset in (second, first, second):
        with commit.locked(tree):
            planned = plan(tree, patchset)
            assert planned.problems() == []
            commit.apply(tree, planned)
        assert commit.verify(tree) == []
        found.append(state(root))
    assert found[0] == found[2] != found[1]
    with commit.locked(tree):
        commit.unapply(tree)
    assert state(root) == before
