"""An applier that is interrupted or meets a full disk at any of its system calls; `test_kill` has the kills."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recipe.applier import commit, journal
from recipe.applier.errors import ApplierError
from recipe.applier.patchset import PatchSet
from recipe.applier.tree import Tree

CALLS = ("open", "fsync", "replace", "unlink", "mkdir", "rmdir", "chmod", "utime")

Run = Callable[[Path], object]
Snapshot = dict[str, tuple[object, ...]]


class Killed(BaseException):
    """Nothing that the applier handles: the process is gone."""


@contextmanager
def failing(at: int, error: BaseException, *, dead: bool = False) -> Iterator[list[str]]:
    """Let the call number `at` (from 0) to the system fail; with `dead` all later ones too. Yields the calls."""
    made: list[str] = []

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            made.append(name)
            if len(made) - 1 == at or (dead and len(made) - 1 > at):
                raise error
            return real(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, wrap(name, getattr(os, name)))
        yield made


@pytest.fixture
def prepared(
    site: Callable[..., Path],
    patches: Callable[..., PatchSet],
    applied: Callable[[Path, PatchSet], object],
    undone: Run,
) -> dict[str, tuple[Callable[[str], Path], Run]]:
    """name → (makes a tree, what is done to it): an application, another one over it, and an undo."""
    edit = {"file": "vllm/a.py", "op": "replace", "old": "1", "new": "11"}
    foreign = {"file": "other/b.py", "op": "replace", "old": "2", "new": "22"}
    new = {"file": "vllm/new/deep/c.py", "op": "overlay", "content": "VALUE = 3\n"}
    newer = {"file": "vllm/new/deep/c.py", "op": "overlay", "content": "VALUE = 4\n"}
    first = patches(edits=[edit, foreign, new])
    second = patches(edits=[newer, {"file": "vllm/d.py", "op": "overlay", "content": ""}])

    def fresh(name: str) -> Path:
        root = site({"vllm/a.py": b"VALUE = 1\n"}, {"other": {"other/b.py": b"VALUE = 2\n"}}, name=name)
        cache = root / "vllm" / "__pycache__"
        cache.mkdir()
        (cache / "a.cpython-36.pyc").write_bytes(b"old")
        return root

    def patched(name: str) -> Path:
        root = fresh(name)
        applied(root, first)
        return root

    return {
        "apply": (fresh, lambda root: applied(root, first)),
        "apply-another": (patched, lambda root: applied(root, second)),
        "unapply": (patched, undone),
    }


def contents(snapshot: Snapshot) -> Snapshot:
    """Without the times of folders, which a kill between two calls may leave."""
    return {name: entry if entry[0] is not None else entry[:2] for name, entry in snapshot.items()}


WORK = pytest.mark.parametrize("work", ["apply", "apply-another", "unapply"])


@WORK
def test_an_interrupt_at_any_call_leaves_the_old_tree_or_the_new_one_at_once(
    work: str, prepared: dict[str, tuple[Callable[[str], Path], Run]], snapshot: Callable[[Path], Snapshot]
) -> None:
    make, act = prepared[work]
    root = make("whole")
    old = contents(snapshot(root))
    act(root)
    new = contents(snapshot(root))
    for at in range(1000):
        root = make(f"interrupted-{at}")
        with failing(at, KeyboardInterrupt()) as made:
            try:
                act(root)
            except KeyboardInterrupt:
                pass
            else:
                break
        assert contents(snapshot(root)) in (old, new), (at, made[at])
    assert at > 20


@WORK
def test_a_full_disk_at_any_call_is_one_clear_refusal_and_can_be_gone_on_from(
    work: str, prepared: dict[str, tuple[Callable[[str], Path], Run]], snapshot: Callable[[Path], Snapshot]
) -> None:
    make, act = prepared[work]
    root = make("whole")
    old = contents(snapshot(root))
    act(root)
    new = contents(snapshot(root))
    exits = set()
    for at in range(1000):
        root = make(f"full-{at}")
        with failing(at, OSError(errno.ENOSPC, "No space left on device", "some/file")) as made:
            try:
                act(root)
            except ApplierError as error:
                exits.add(error.exit)
                assert "No space left on device" in error.message
                found = contents(snapshot(root))
                if error.exit == 2:
                    assert "nothing was changed" in error.message
                    assert found == old, (at, made[at])
                else:
                    assert "run the same command again" in str(error.hint)
                    assert journal.unfinished(Tree(root)) is not None
        act(root)
        assert contents(snapshot(root)) == new, at
        if len(made) <= at:
            break
    assert exits == {2, 3}


def test_a_disk_that_stays_full_changes_nothing(
    prepared: dict[str, tuple[Callable[[str], Path], Run]], snapshot: Callable[[Path], Snapshot]
) -> None:
    make, act = prepared["apply"]
    root = make("site")
    before = snapshot(root)
    with pytest.MonkeyPatch.context() as patch:
        real = os.open

        def full(path: str, flags: int, *more: int) -> int:
            if flags & os.O_CREAT:
                raise OSError(errno.EROFS, "Read-only file system", path)
            return real(path, flags, *more)

        patch.setattr(os, "open", full)
        with pytest.raises(ApplierError, match="cannot write: Read-only file system; nothing was changed") as refused:
            act(root)
    assert refused.value.exit == 2
    assert snapshot(root) == before


@pytest.mark.parametrize("text", ["", "{", '{"files": [', "\x00", "[]"])
def test_a_note_that_was_not_finished_is_cleared_away(
    text: str, prepared: dict[str, tuple[Callable[[str], Path], Run]], snapshot: Callable[[Path], Snapshot]
) -> None:
    make, _ = prepared["apply"]
    root = make("site")
    before = contents(snapshot(root))
    tree = Tree(root)
    (root / tree.dist_info / journal.PREPARED).write_text(text)
    assert commit.verify(tree) == [
        f"{tree.dist_info}/{journal.PREPARED}: an application was killed before it began; "
        "apply or unapply clears it away"
    ]
    assert commit.recover(tree)
    assert contents(snapshot(root)) == before
    assert not commit.recover(tree)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\x00"])
def test_a_journal_that_is_damaged_asks_for_a_person(
    text: str, prepared: dict[str, tuple[Callable[[str], Path], Run]]
) -> None:
    make, _ = prepared["apply"]
    tree = Tree(make("site"))
    (tree.root / tree.dist_info / journal.JOURNAL).write_text(text)
    with pytest.raises(ApplierError, match="the journal is damaged") as error, commit.locked(tree):
        pass
    assert (error.value.exit, error.value.hint) == (3, "install the distribution afresh")


def test_a_journal_whose_files_are_lost_asks_for_a_person(
    prepared: dict[str, tuple[Callable[[str], Path], Run]],
) -> None:
    make, act = prepared["apply"]
    root = make("site")
    folder = root / Tree(root).dist_info
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        real = os.replace

        def die(source: Any, target: Any) -> None:
            seen.append(target)
            if len(seen) == 3:
                raise Killed
            real(source, target)

        patch.setattr(os, "replace", die)
        with pytest.raises(Killed):
            # Also the attempt to finish dies.
            patch.setattr(journal, "recover", lambda tree: None)
            act(root)
    assert commit.verify(Tree(root))[0].endswith("an application was killed half-way; apply or unapply finishes it")
    entries = json.loads((folder / journal.JOURNAL).read_bytes())["files"]
    lost = next(path for path in root.rglob(f"*{journal._SUFFIX}"))
    lost.unlink()
    with pytest.raises(ApplierError, match="is gone before it was put in place") as error, commit.locked(Tree(root)):
        pass
    assert error.value.exit == 3
    assert len(entries) == 6
