"""An applier whose process is killed: before each of its changes to the disk, and in the middle of a write.

The kills are real: a forked process counts what Python is about to ask of the system (audit events, which also come
from the standard library's own code) and kills itself there. `test_crash` has the errors that a process survives.
"""

import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from recipe.applier import commit, journal
from recipe.applier.errors import ApplierError
from recipe.applier.patchset import PatchSet
from recipe.applier.tree import Tree

Act = Callable[[Path], object]
Make = Callable[[str], Path]
Snapshot = dict[str, tuple[object, ...]]
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.utime", "os.truncate")


@pytest.fixture
def works(
    tmp_path: Path,
    site: Callable[..., Path],
    patches: Callable[..., PatchSet],
    applied: Callable[[Path, PatchSet], object],
    undone: Act,
) -> dict[str, tuple[Make, Act]]:
    """name → (makes a tree, what is done to it): an application, another one over it, and an undo."""
    edit = {"file": "vllm/a.py", "op": "replace", "old": "1", "new": "11"}
    foreign = {"file": "other/b.py", "op": "replace", "old": "2", "new": "22"}
    new = {"file": "vllm/new/deep/c.py", "op": "overlay", "content": "VALUE = 3\n"}
    newer = {"file": "vllm/new/deep/c.py", "op": "overlay", "content": "VALUE = 4\n"}
    first = patches(edits=[edit, foreign, new])
    second = patches(edits=[newer, {"file": "vllm/d.py", "op": "overlay", "content": ""}])
    fresh = site({"vllm/a.py": b"VALUE = 1\n"}, {"other": {"other/b.py": b"VALUE = 2\n"}}, name="fresh")
    (fresh / "vllm/__pycache__").mkdir()
    for name in ("a.cpython-36.pyc", f"a.{sys.implementation.cache_tag}.pyc"):
        (fresh / "vllm/__pycache__" / name).write_bytes(b"old")
    patched = shutil.copytree(fresh, tmp_path / "patched")
    applied(patched, first)

    def copy(source: Path) -> Make:
        return lambda name: shutil.copytree(source, tmp_path / name)

    return {
        "apply": (copy(fresh), lambda root: applied(root, first)),
        "apply-another": (copy(patched), lambda root: applied(root, second)),
        "unapply": (copy(patched), undone),
    }


def contents(snapshot: Snapshot) -> Snapshot:
    """Without the times of folders, which a kill between two calls may leave."""
    return {name: entry if entry[0] is not None else entry[:2] for name, entry in snapshot.items()}


def killed(act: Act, root: Path, at: int) -> bool:
    """Run `act` in a process that kills itself before its change number `at`; False when it came to its end."""

    def prepare() -> None:
        left = at

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if event in _CHANGES or writes:
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        sys.addaudithook(watch)

    return _dies(act, root, prepare) == signal.SIGKILL


def killed_writing(act: Act, root: Path, size: int) -> bool:
    """Run `act` in a process that the system kills when a file becomes longer than `size` bytes."""

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return _dies(act, root, prepare) == signal.SIGXFSZ


def _dies(act: Act, root: Path, prepare: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        # Nothing of the test must run on in the fork.
        with suppress(BaseException):
            prepare()
            act(root)
            status = 0
        os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def recovered(root: Path) -> None:
    with commit.locked(Tree(root)):
        assert journal.unfinished(Tree(root)) is None


WORK = pytest.mark.parametrize("work", ["apply", "apply-another", "unapply"])


@WORK
def test_a_kill_before_any_change_leaves_the_old_tree_or_the_new_one_and_no_litter(
    work: str, works: dict[str, tuple[Make, Act]], snapshot: Callable[[Path], Snapshot], undone: Act
) -> None:
    make, act = works[work]
    root = make("whole")
    old = contents(snapshot(root))
    act(root)
    new = contents(snapshot(root))
    outcomes = []
    for at in range(1000):
        root = make(f"killed-{at}")
        if not killed(act, root, at):
            break
        tree = Tree(root)
        assert commit.verify(tree) or journal.unfinished(tree) is None
        recovered(root)
        found = contents(snapshot(root))
        assert found in (old, new), at
        outcomes.append(found == new)
        # Nothing that was compiled from the old sources is left beside the new ones.
        assert found == old or b"old" not in {path.read_bytes() for path in root.rglob("*.pyc")}
        act(root)
        assert contents(snapshot(root)) == new, at
        shutil.rmtree(root)
    # From some change on it is the new tree, and never the old one again.
    assert len(outcomes) > 20
    assert outcomes == sorted(outcomes)
    assert {*outcomes} == {False, True}
    undone(root)
    assert "vllm/new" not in snapshot(root)


@WORK
def test_a_kill_while_the_rest_of_a_killed_run_is_mended_is_mended_too(
    work: str, works: dict[str, tuple[Make, Act]], snapshot: Callable[[Path], Snapshot]
) -> None:
    make, act = works[work]
    root = make("whole")
    old = contents(snapshot(root))
    act(root)
    new = contents(snapshot(root))
    for step in chosen(make, act):
        left = make(f"left-{step}")
        assert killed(act, left, step)
        for at in range(1000):
            root = shutil.copytree(left, left.with_name(f"again-{step}-{at}"))
            whole = not killed(recovered, root, at)
            recovered(root)
            assert contents(snapshot(root)) in (old, new), (step, at)
            shutil.rmtree(root)
            if whole:
                break
        assert at > 3


def chosen(make: Make, act: Act) -> Iterator[int]:
    """The numbers of three changes: the last one before the journal, the first one behind it, the one in the middle
    of the renames."""
    begun = None
    for at in range(1000):
        root = make(f"chosen-{at}")
        assert killed(act, root, at)
        if begun is None and (root / Tree(root).dist_info / journal.JOURNAL).exists():
            begun = at
            yield from (at - 1, at)
        if begun is not None and at == begun + 4:
            yield at
            return


@WORK
def test_a_kill_in_the_middle_of_a_write_leaves_the_old_tree(
    work: str, works: dict[str, tuple[Make, Act]], snapshot: Callable[[Path], Snapshot]
) -> None:
    make, act = works[work]
    old = contents(snapshot(make("whole")))
    for size in (0, 1, 7, 40, 200, 700):
        root = make(f"killed-{size}")
        assert killed_writing(act, root, size), size
        recovered(root)
        assert contents(snapshot(root)) == old, size


def test_a_write_that_the_system_cuts_off_is_a_refusal_and_leaves_the_old_tree(
    works: dict[str, tuple[Make, Act]], snapshot: Callable[[Path], Snapshot]
) -> None:
    make, act = works["apply"]
    root = make("full")
    old = snapshot(root)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (0, 7, 200, 700):
        # Python ignores the signal, so the write fails like one on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            with pytest.raises(ApplierError, match="File too large; nothing was changed") as refused:
                act(root)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert refused.value.exit == 2
        assert Path(refused.value.where or root) != root
        assert snapshot(root) == old
    act(root)


def test_a_folder_that_may_not_be_written_to_is_a_refusal_and_nothing_changes(
    works: dict[str, tuple[Make, Act]], snapshot: Callable[[Path], Snapshot]
) -> None:
    make, act = works["apply"]
    root = make("read-only")
    before = snapshot(root)

    def refused(root: Path) -> None:
        with pytest.raises(ApplierError, match="Permission denied; nothing was changed") as error:
            act(root)
        assert error.value.exit == 2

    (root / "other").chmod(0o555)
    try:
        assert _as_nobody(refused, root) == 0
    finally:
        (root / "other").chmod(0o755)
    after = snapshot(root)
    assert {name: entry[0] for name, entry in after.items()} == {name: entry[0] for name, entry in before.items()}
    act(root)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize(("mode", "words"), [(0o755, "Permission denied; nothing was changed"), (0o777, None)])
def test_a_folder_of_somebody_else_is_patched_when_it_can_be_written_to_and_else_named(
    mode: int, words: str | None, works: dict[str, tuple[Make, Act]], snapshot: Callable[[Path], Snapshot]
) -> None:
    make, act = works["apply"]
    root = make("shared")
    info = root / Tree(root).dist_info
    time = info.stat().st_mtime_ns

    def tried(root: Path) -> None:
        if words is None:
            act(root)
            assert commit.verify(Tree(root)) == []
            return
        with pytest.raises(ApplierError, match=words) as error:
            act(root)
        assert error.value.where is not None and Path(error.value.where).parent == root / "other"

    (root / "other").chmod(mode)
    assert _as_nobody(tried, root, but=root / "other") == 0
    assert info.stat().st_mtime_ns == time


def _as_nobody(do: Act, root: Path, but: Path | None = None) -> int:
    """Run in a child that is not root and owns the tree, all of it `but` one folder. Returns its exit status."""
    # Above a folder of its own nobody else may look into what a test makes.
    modes = {path: path.stat().st_mode for path in root.parents if "pytest" in str(path)}

    def fallen(root: Path) -> None:
        if os.getuid() == 0:
            os.setegid(65534)
            os.seteuid(65534)
        do(root)

    try:
        for path in modes:
            path.chmod(0o755)
        if os.getuid() == 0:
            for path in (root, *root.rglob("*")):
                if path == but:
                    os.chown(path, 0, 0)
                else:
                    os.chown(path, 65534, 65534)
        return _dies(fallen, root, lambda: None)
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
