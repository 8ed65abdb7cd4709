"""What an application leaves in an installed tree, and what undoing it brings back."""

import hashlib
import json
import os
import py_compile
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recipe.applier import commit, journal
from recipe.applier.errors import ApplierError
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.tree import Tree, record_row, record_rows, replace_rows

INFO = "vllm-0.33.0.dist-info"
A, B = b"VALUE = 1\n\ndef run():\n    return VALUE\n", b"VALUE = 2\n"
EDIT = {"file": "vllm/a.py", "op": "replace", "in": "run", "old": "VALUE", "new": "9"}
OTHER_SCHEMA = "undo it with the version of the applier that wrote it"
FOREIGN = {"file": "other/b.py", "op": "replace", "old": "2", "new": "22"}
OVERLAY = {"file": "vllm/new/c.py", "op": "overlay", "content": "VALUE = 3\n"}

Make = Callable[..., Path]
Patches = Callable[..., PatchSet]
Take = Callable[[Path], dict[str, tuple[object, ...]]]
Apply = Callable[[Path, PatchSet], list[str]]
Undo = Callable[[Path], list[str]]


@pytest.fixture
def root(site: Make) -> Path:
    return site({"vllm/a.py": A, "vllm/other.py": b"X = 1\n"}, {"other": {"other/b.py": B}})


def test_an_application_is_recorded_without_clock_and_without_absolute_paths(
    root: Path, site: Make, patches: Patches, applied: Apply, snapshot: Take
) -> None:
    patchset = patches(a=[EDIT, OVERLAY], b=[FOREIGN])
    assert applied(root, patchset) == ["other/b.py", "vllm/a.py", "vllm/new/c.py"]
    again = site({"vllm/a.py": A, "vllm/other.py": b"X = 1\n"}, {"other": {"other/b.py": B}}, name="elsewhere")
    applied(again, patchset)
    assert snapshot(root) == snapshot(again)
    manifest = json.loads((root / INFO / "PATCHES.json").read_bytes())
    assert manifest["patchset"] == patchset.sha256
    assert manifest["patches"]["a"]["state"] == "applied"
    assert list(manifest["files"]) == ["other/b.py", "vllm/a.py", "vllm/new/c.py"]


def test_record_lists_what_is_there_and_only_the_rows_of_patched_files_change(
    root: Path, patches: Patches, applied: Apply
) -> None:
    before = {name: record_rows((root / name / "RECORD").read_bytes()) for name in (INFO, "other-0.33.0.dist-info")}
    applied(root, patches(a=[EDIT, OVERLAY, FOREIGN]))
    assert commit.verify(Tree(root)) == []
    after = {name: record_rows((root / name / "RECORD").read_bytes()) for name in before}
    changed = {
        path
        for name in before
        for path in before[name] | after[name]
        if before[name].get(path) != after[name].get(path)
    }
    assert changed == {"vllm/a.py", "other/b.py", "vllm/new/c.py", f"{INFO}/PATCHES.json"}
    assert "vllm/new/c.py" in after[INFO]


def test_another_patch_set_goes_straight_to_its_own_state_in_one_transaction(
    root: Path,
    site: Make,
    patches: Patches,
    applied: Apply,
    undone: Undo,
    snapshot: Take,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = snapshot(root)
    first = patches(root, a=[EDIT, OVERLAY], b=[FOREIGN])
    newer = {**OVERLAY, "content": "VALUE = 4\n"}
    further = {"file": "vllm/a.py", "op": "replace", "old": "1", "new": "11"}
    second = patches(root, a=[EDIT, newer], c=[further])
    straight = site({"vllm/a.py": A, "vllm/other.py": b"X = 1\n"}, {"other": {"other/b.py": B}}, name="straight")
    applied(straight, second)
    applied(root, first)
    states = {patch.id: [edit.state for edit in patch.edits] for patch in plan(Tree(root), second).patches}
    assert states == {"a": ["applied", "pending"], "c": ["pending"]}
    seen = []

    def counted(tree: Tree, writes: list[journal.Write]) -> None:
        seen.append(writes)
        journal.write(tree, writes)

    monkeypatch.setattr(commit, "write", counted)
    assert applied(root, second) == ["other/b.py", "vllm/a.py", "vllm/new/c.py"]
    assert len(seen) == 1
    assert (root / "other/b.py").read_bytes() == B
    assert snapshot(root) == snapshot(straight)
    applied(root, first)
    applied(root, second)
    assert snapshot(root) == snapshot(straight)
    assert undone(root) == ["vllm/a.py", "vllm/new/c.py"]
    assert snapshot(root) == before


def test_what_was_read_before_the_lock_was_held_is_read_again(
    root: Path, patches: Patches, applied: Apply, undone: Undo, snapshot: Take
) -> None:
    before = snapshot(root)
    early = Tree(root)
    applied(root, patches(a=[EDIT]))
    with commit.locked(early):
        planned = plan(early, patches(b=[{**EDIT, "new": "8"}]))
        assert planned.problems() == []
        commit.apply(early, planned)
    assert (root / "vllm/a.py").read_bytes() == A.replace(b"return VALUE", b"return 8")
    undone(root)
    assert snapshot(root) == before


def test_a_second_applier_is_told_that_the_tree_is_busy(root: Path) -> None:
    with commit.locked(Tree(root)):
        with pytest.raises(ApplierError, match="another applier works on this tree") as busy, commit.locked(Tree(root)):
            pass
        assert busy.value.exit == 6
    with commit.locked(Tree(root)):
        pass


@pytest.mark.parametrize("file", ["vllm/a.py", f"{INFO}/RECORD", "vllm/new/c.py"])
def test_a_file_that_changes_after_planning_is_left_alone_and_so_is_everything_else(
    file: str, root: Path, patches: Patches, snapshot: Take
) -> None:
    tree = Tree(root)
    with commit.locked(tree):
        planned = plan(tree, patches(a=[EDIT, OVERLAY]))
        tree.record(tree.dist_info)
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_bytes(b"# somebody else\n")
        before = snapshot(root)
        with pytest.raises(ApplierError, match="changed while the patches were planned") as refused:
            commit.apply(tree, planned)
    assert (refused.value.exit, refused.value.where) == (2, file)
    assert snapshot(root) == before


def test_hard_links_of_a_package_cache_keep_the_original_bytes(
    root: Path, tmp_path: Path, patches: Patches, applied: Apply
) -> None:
    cache = tmp_path / "cache.py"
    cache.hardlink_to(root / "vllm/a.py")
    record = tmp_path / "RECORD"
    record.hardlink_to(root / INFO / "RECORD")
    kept = record.read_bytes()
    applied(root, patches(a=[EDIT]))
    assert (cache.read_bytes(), record.read_bytes()) == (A, kept)
    assert cache.stat().st_nlink == 1


def imported(root: Path, module: str, *flags: str) -> str:
    code = f"import {module}; print({module}.VALUE)"
    environment = {"PYTHONPATH": str(root), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("mode", py_compile.PycInvalidationMode)
def test_bytecode_of_the_old_source_is_never_imported_again(
    mode: py_compile.PycInvalidationMode, site: Make, patches: Patches, applied: Apply, undone: Undo
) -> None:
    root = site({"vllm/a.py": b"VALUE = 1\n"})
    source = root / "vllm/a.py"
    py_compile.compile(str(source), invalidation_mode=mode)
    py_compile.compile(str(source), invalidation_mode=mode, optimize=1)
    foreign = source.parent / "__pycache__" / "a.cpython-36.pyc"
    foreign.write_bytes(b"of another Python")
    neighbour = source.parent / "__pycache__" / "ab.cpython-36.pyc"
    neighbour.write_bytes(b"of another module")
    assert imported(root, "vllm.a") == "1"
    applied(root, patches(a=[{"file": "vllm/a.py", "op": "replace", "old": "1", "new": "2"}]))
    assert (imported(root, "vllm.a"), imported(root, "vllm.a", "-O")) == ("2", "2")
    assert not foreign.exists()
    assert neighbour.exists()
    undone(root)
    assert (imported(root, "vllm.a"), imported(root, "vllm.a", "-O")) == ("1", "1")


def test_a_new_module_of_the_same_size_and_time_is_imported_anew(
    site: Make, patches: Patches, applied: Apply, undone: Undo
) -> None:
    root = site({})
    new = {"file": "vllm/new.py", "op": "overlay", "content": "VALUE = 1\n"}
    applied(root, patches(a=[new]))
    assert imported(root, "vllm.new") == "1"
    time = (root / "vllm/new.py").stat().st_mtime_ns
    applied(root, patches(a=[{**new, "content": "VALUE = 2\n"}]))
    assert (root / "vllm/new.py").stat().st_mtime_ns == time
    assert imported(root, "vllm.new") == "2"
    undone(root)
    assert not list(root.rglob("new*"))


def test_compiled_files_are_checked_against_the_source_where_this_python_made_them(
    site: Make, patches: Patches, applied: Apply
) -> None:
    root = site({"vllm/a.py": b"VALUE = 1\n"})
    compiled = Path(py_compile.compile(str(root / "vllm/a.py")) or "")
    applied(root, patches(a=[{"file": "vllm/a.py", "op": "replace", "old": "1", "new": "2"}]))
    # Bit 0: by hash; bit 1: the source is looked at.
    assert compiled.read_bytes()[4] == 0b11


def test_pip_uninstall_leaves_nothing_of_a_patched_distribution(
    tmp_path: Path, patches: Patches, applied: Apply
) -> None:
    wheel = tmp_path / "vllm-0.33.0-py3-none-any.whl"
    files = {
        "vllm/__init__.py": b"",
        "vllm/a.py": A,
        f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: vllm\nVersion: 0.33.0\n",
        f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        rows = "".join(record_row(b"", path, data) for path, data in files.items())
        archive.writestr(f"{INFO}/RECORD", f"{rows}{INFO}/RECORD,,\n")
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    quiet = ["--no-input", "--disable-pip-version-check", "-q"]
    (site,) = environment.glob("lib/python3*/site-packages")
    empty = sorted(site.rglob("*"))
    subprocess.run([*pip, "install", *quiet, "--no-index", str(wheel)], check=True)
    installed = {path: path.read_bytes() for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    applied(site, patches(a=[EDIT, OVERLAY]))
    assert commit.verify(Tree(site)) == []
    assert imported(site, "vllm.new.c") == "3"
    subprocess.run([*pip, "uninstall", *quiet, "-y", "vllm"], check=True)
    assert sorted(site.rglob("*")) == empty
    assert len(installed) > 5


RECORDS = {
    "plain": b"vllm/a.py,sha256=x,1\nvllm/b.py,sha256=y,2\nvllm-1.dist-info/RECORD,,\n",
    "crlf": b"vllm/a.py,sha256=x,1\r\nvllm/b.py,sha256=y,2\r\nvllm-1.dist-info/RECORD,,\r\n",
    "no final newline": b"vllm/a.py,sha256=x,1\nvllm-1.dist-info/RECORD,,\nvllm/b.py,sha256=y,2",
    "no row of its own": b"vllm/a.py,sha256=x,1\nvllm/b.py,sha256=y,2\n",
    "quoted, commas, other hash": b'"vllm/a.py","md5=x",\n"vllm/a,b.py",sha512=y,2\nvllm-1.dist-info/RECORD,,\n',
    "odd characters": "vllm/\u2028\x85é.py,sha256=x,1\nvllm/a.py,,\nvllm-1.dist-info/RECORD,,\n".encode(),
    "not UTF-8": b"vllm/caf\xe9.py,sha256=x,1\nvllm/a.py,,\nvllm-1.dist-info/RECORD,,\n",
    "empty": b"",
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_rows_of_record_lead_back_to_the_very_bytes(record: bytes) -> None:
    rows: dict[str, str | None] = {
        path: record_row(record, path, b"data") for path in ("vllm/a.py", "vllm/b.py", "vllm/a,b.py", "vllm/new,.py")
    }
    after, back = replace_rows(record, rows)
    assert replace_rows(after, back)[0] == record
    assert {path: record_rows(after)[path] for path in rows} == {path: record_rows(after)["vllm/a.py"] for path in rows}
    assert replace_rows(record, {"vllm/gone.py": None}) == (record, {})


def test_a_record_that_cannot_be_read_is_a_mismatch(
    root: Path, patches: Patches, applied: Apply, snapshot: Take
) -> None:
    applied(root, patches(a=[EDIT]))
    record = root / INFO / "RECORD"
    record.write_bytes(b'"' + record.read_bytes() + b"x" * 200_000)
    before = snapshot(root)
    with pytest.raises(ApplierError, match="RECORD is damaged: field larger than field limit") as error:
        commit.verify(Tree(root))
    assert (error.value.exit, snapshot(root)) == (4, before)


@pytest.mark.parametrize(
    ("metadata", "words"), [(None, "is missing"), (b"", "names no version"), (b"Author: caf\xe9\n", "names no version")]
)
def test_a_distribution_that_does_not_tell_its_version_is_a_mismatch(
    metadata: bytes | None, words: str, root: Path
) -> None:
    path = root / INFO / "METADATA"
    path.unlink()
    if metadata is not None:
        path.write_bytes(metadata)
    with pytest.raises(ApplierError, match=words) as error:
        Tree(root)
    assert (error.value.exit, error.value.where) == (4, str(path))


def test_metadata_need_not_be_utf_8(root: Path) -> None:
    (root / INFO / "METADATA").write_bytes(b"Name: vllm\nVersion: 0.33.0\nAuthor: caf\xe9\n")
    assert Tree(root).version == "0.33.0"


def test_a_file_that_was_changed_by_hand_is_patched_and_comes_back_as_it_was(
    root: Path, patches: Patches, applied: Apply, undone: Undo, snapshot: Take
) -> None:
    # RECORD still has the hash of the release: its row must come back too.
    (root / "vllm/a.py").write_bytes(A + b"# by hand\n")
    before = snapshot(root)
    applied(root, patches(a=[EDIT]))
    assert commit.verify(Tree(root)) == []
    undone(root)
    assert snapshot(root) == before


def test_a_file_that_no_distribution_lists_is_not_patched(
    root: Path, patches: Patches, applied: Apply, snapshot: Take
) -> None:
    (root / "vllm/unlisted.py").write_bytes(A)
    before = snapshot(root)
    with pytest.raises(ApplierError, match="no installed distribution lists this file") as refused:
        applied(root, patches(a=[EDIT, {**EDIT, "file": "vllm/unlisted.py"}]))
    assert (refused.value.exit, refused.value.where) == (2, "vllm/unlisted.py")
    assert snapshot(root) == before


def test_a_replaced_file_of_another_distribution_comes_back(
    root: Path, patches: Patches, applied: Apply, undone: Undo, snapshot: Take
) -> None:
    before = snapshot(root)
    digest = hashlib.sha256(B).hexdigest()
    replacing = {"file": "other/b.py", "op": "overlay", "content": "VALUE = 5\n", "replaces": [digest]}
    applied(root, patches(a=[replacing]))
    assert (root / "other/b.py").read_bytes() == b"VALUE = 5\n"
    assert commit.verify(Tree(root)) == []
    undone(root)
    assert snapshot(root) == before


def tampered(root: Path, what: str) -> str:
    record = root / INFO / "RECORD"
    if what == "file":
        (root / "vllm/a.py").write_bytes(A)
        return "vllm/a.py: sha256 "
    if what == "gone":
        (root / "vllm/new/c.py").unlink()
        return "vllm/new/c.py: missing"
    if what == "row":
        record.write_bytes(record.read_bytes().replace(b"vllm/a.py,sha256=", b"vllm/a.py,sha256=x"))
        return "vllm/a.py: RECORD says "
    if what == "other row":
        record.write_bytes(record.read_bytes().replace(b"vllm/other.py,sha256=", b"vllm/other.py,sha256=x"))
        return f"{INFO}/RECORD: RECORD does not lead back to the original"
    if what == "manifest":
        manifest = root / INFO / "PATCHES.json"
        manifest.write_bytes(manifest.read_bytes().replace(b'"vllm": "0.33.0"', b'"vllm": "0.33.1"'))
        return f"{INFO}/PATCHES.json: RECORD says "
    (root / INFO / "PATCHES.json").unlink()
    return f"{INFO}/PATCHES.json: RECORD lists it, but it is missing"


@pytest.mark.parametrize("what", ["file", "gone", "row", "other row", "manifest", "no manifest"])
def test_verify_tells_what_is_not_as_it_was_written(what: str, root: Path, patches: Patches, applied: Apply) -> None:
    applied(root, patches(a=[EDIT, OVERLAY]))
    expected = tampered(root, what)
    assert any(reason.startswith(expected) for reason in commit.verify(Tree(root))), commit.verify(Tree(root))


def test_a_tree_that_was_never_patched_is_told_so(root: Path) -> None:
    assert commit.verify(Tree(root)) == [f"{INFO}/PATCHES.json: the tree is not patched"]


@pytest.mark.parametrize("what", ["file", "gone", "other row", "no manifest"])
def test_what_cannot_be_undone_is_left_as_it_is(
    what: str, root: Path, patches: Patches, applied: Apply, undone: Undo, snapshot: Take
) -> None:
    applied(root, patches(a=[EDIT, OVERLAY]))
    tampered(root, what)
    before = snapshot(root)
    with pytest.raises(ApplierError) as refused:
        undone(root)
    assert refused.value.exit == 4
    assert "install the distribution afresh" in str(refused.value.hint)
    assert snapshot(root) == before


@pytest.mark.parametrize("what", ["no manifest", "other row"])
def test_nothing_is_applied_over_a_tree_that_does_not_lead_back(
    what: str, root: Path, patches: Patches, applied: Apply, snapshot: Take
) -> None:
    applied(root, patches(a=[EDIT, OVERLAY]))
    tampered(root, what)
    before = snapshot(root)
    with pytest.raises(ApplierError) as refused:
        applied(root, patches(b=[{"file": "vllm/other.py", "op": "replace", "old": "1", "new": "2"}]))
    assert refused.value.exit == 4
    assert snapshot(root) == before


def test_a_damaged_manifest_is_a_mismatch(root: Path, patches: Patches, applied: Apply) -> None:
    applied(root, patches(a=[EDIT]))
    for text in ("{", "[]", '{"schema": 1}', '{"schema": 99}', '{"schema": 1, "files": {"a": 1}}'):
        (root / INFO / "PATCHES.json").write_text(text)
        with pytest.raises(ApplierError) as error:
            Tree(root)
        assert error.value.exit == 4
        assert error.value.hint in ("install the distribution afresh", OTHER_SCHEMA)


def test_a_patched_file_that_was_changed_is_a_conflict_of_its_edits(
    root: Path, patches: Patches, applied: Apply
) -> None:
    applied(root, patches(a=[EDIT], b=[FOREIGN]))
    (root / "vllm/a.py").write_bytes(b"# somebody else\n")
    planned = plan(Tree(root), patches(a=[EDIT], c=[OVERLAY]))
    assert {patch.id: patch.state for patch in planned.patches} == {"a": "drift:conflict", "c": "pending"}
    assert [edit.message for edit in planned.patches[0].edits] == ["the file was changed after it was patched"]


def test_a_patched_file_that_was_changed_is_not_forgotten_by_a_patch_set_without_it(
    root: Path, patches: Patches, applied: Apply
) -> None:
    applied(root, patches(a=[EDIT], b=[FOREIGN]))
    (root / "vllm/a.py").write_bytes(b"# somebody else\n")
    with pytest.raises(ApplierError, match="the file was changed after it was patched") as refused:
        plan(Tree(root), patches(b=[FOREIGN]))
    assert (refused.value.exit, refused.value.where) == (4, "vllm/a.py")


def test_drifts_of_several_files_are_all_told_each_with_its_candidate(root: Path, patches: Patches) -> None:
    renamed: dict[str, Any] = {
        "file": "vllm/a.py",
        "op": "insert",
        "in": "runs",
        "before": "return VALUE",
        "add": "x = 1",
    }
    gone = {"file": "vllm/otter.py", "op": "import", "add": {"import": "os"}}
    anchor = {"file": "other/b.py", "op": "insert", "before": "VALUE = 3", "add": "x = 1"}
    found = plan(Tree(root), patches(a=[renamed, EDIT], b=[gone], c=[anchor]))
    edits = [edit for patch, edit in found.problems() if edit is not None]
    assert [(edit.file, edit.state) for edit in edits] == [
        ("vllm/a.py", "drift:scope"),
        ("vllm/otter.py", "drift:missing-file"),
        ("other/b.py", "drift:anchor"),
    ]
    assert [edit.to_json()["nearest"] for edit in edits] == [
        {"file": "vllm/a.py", "line": 3, "where": "run", "text": "def run():"},
        {"file": "vllm/other.py", "line": 1, "where": "<module>", "text": ""},
        {"file": "other/b.py", "line": 1, "where": "<module>", "text": "VALUE = 2"},
    ]
    assert found.changes == []


DEEP = "VALUE = " + "-" * 100_000 + "1\n"
LONG = "VALUE = " + "1 + " * 100_000 + "1\n"


@pytest.mark.parametrize("code", [DEEP, LONG], ids=["deep", "long"])
@pytest.mark.parametrize("where", ["file", "patch", "overlay"])
def test_code_that_is_nested_too_deeply_for_this_python_is_a_drift(
    where: str, code: str, root: Path, patches: Patches
) -> None:
    edit: dict[str, Any] = {"file": "vllm/a.py", "op": "insert", "after": "VALUE = 1", "add": "OTHER = 1\n"}
    if where == "file":
        (root / "vllm/a.py").write_bytes(A + code.encode())
    elif where == "patch":
        edit["add"] = code
    else:
        edit = {**OVERLAY, "content": code}
    (planned,) = plan(Tree(root), patches(a=[edit])).patches[0].edits
    assert planned.state == "drift:syntax"
    assert "is nested too deeply to be read" in str(planned.message)


def test_sources_of_another_version_are_refused(root: Path, patches: Patches) -> None:
    document = {**patches(a=[EDIT]).document, "vllm": "0.32.0"}
    with pytest.raises(ApplierError, match=r"the sources are vLLM 0\.33\.0, the patch set is for 0\.32\.0") as refused:
        plan(Tree(root), PatchSet(document))
    assert refused.value.exit == 2
    plan(Tree(root), PatchSet({**document, "vllm": "0.33.0+cu130"}))


def test_a_required_patch_that_does_nothing_here_stands_in_the_way_and_an_optional_one_does_not(
    root: Path, patches: Patches
) -> None:
    idle = {**EDIT, "applies": False}
    ((patch, edit),) = plan(Tree(root), patches(a=[idle])).problems()
    assert (patch.state, edit) == ("not-applicable", None)
    assert plan(Tree(root), patches(a=[idle], optional=("a",))).problems() == []
