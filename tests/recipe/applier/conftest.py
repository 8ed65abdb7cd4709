"""Small installed trees and patch sets for the applier's tests."""

import base64
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from recipe.applier import commit
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.tree import Tree

VERSION = "0.33.0"
BORN_NS = 1_700_000_000_123_456_789

Site = Callable[..., Path]
Patches = Callable[..., PatchSet]
Snapshot = dict[str, tuple[object, ...]]


def _record(root: Path, dist_info: str, files: Mapping[str, bytes]) -> None:
    rows = []
    for path, data in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    (root / dist_info / "RECORD").write_text("".join(rows) + f"{dist_info}/RECORD,,\n", encoding="utf-8", newline="")


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here, so the time for it can be saved."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Makes a site-packages folder: `site({path: bytes})` installs the files as vLLM 0.33.0, `others` as that
    distribution. All are of one odd time in the past, some of odd modes
    and, for root, of another owner."""

    def make(
        files: Mapping[str, bytes], others: Mapping[str, Mapping[str, bytes]] | None = None, name: str = "site"
    ) -> Path:
        root = tmp_path / name
        for distribution, listed in {"vllm": files, **(others or {})}.items():
            dist_info = f"{distribution}-{VERSION}.dist-info"
            own = {f"{dist_info}/METADATA": f"Name: {distribution}\nVersion: {VERSION}\n".encode()}
            if distribution == "vllm":
                own["vllm/__init__.py"] = b""
            own |= listed
            for path, data in own.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(data)
            _record(root, dist_info, own)
        for index, made in enumerate(sorted(root.rglob("*"), reverse=True)):
            if made.is_file():
                made.chmod((0o644, 0o664, 0o755, 0o444)[index % 4])
                if os.getuid() == 0 and index % 2:
                    os.chown(made, 1234, 5678)
            os.utime(made, ns=(BORN_NS + index, BORN_NS + index))
        os.utime(root, ns=(BORN_NS, BORN_NS))
        return root

    return make


@pytest.fixture
def patches() -> Patches:
    """Makes a patch set: `patches(id=[edits])`, each edit applying unless it says otherwise. With `pristine` the
    files of that tree are the release's own."""

    def make(pristine: Path | None = None, optional: tuple[str, ...] = (), **edits: list[dict[str, Any]]) -> PatchSet:
        document = {
            "schema": 1,
            "vllm": VERSION,
            "patches": [
                {
                    "id": id,
                    "title": id,
                    "class": "local",
                    "required": id not in optional,
                    "independent": False,
                    "edits": [{"applies": True, **edit} for edit in listed],
                }
                for id, listed in edits.items()
            ],
            "baseline": {},
        }
        if pristine is not None:
            document["baseline"] = {
                str(path.relative_to(pristine)): [hashlib.sha256(path.read_bytes()).hexdigest()]
                for path in pristine.rglob("*")
                if path.is_file()
            }
        return PatchSet(document)

    return make


@pytest.fixture
def snapshot() -> Callable[[Path], Snapshot]:
    """Everything of a tree that an undo must bring back: bytes, modes, owners and times of files, and of folders.
    Caches of bytecode are left out."""

    def take(root: Path) -> Snapshot:
        found: Snapshot = {}
        for path in [root, *sorted(root.rglob("*"))]:
            if "__pycache__" in path.parts:
                continue
            status = path.stat()
            data = path.read_bytes() if path.is_file() else None
            owner = (status.st_uid, status.st_gid)
            found[str(path.relative_to(root))] = (data, (status.st_mode, owner), status.st_mtime_ns)
        return found

    return take


@pytest.fixture
def applied() -> Callable[[Path, PatchSet], list[str]]:
    """Plans and applies under the lock, as the command does; a plan with problems fails the test."""

    def run(root: Path, patchset: PatchSet) -> list[str]:
        tree = Tree(root)
        with commit.locked(tree):
            planned = plan(tree, patchset)
            assert planned.problems() == []
            return commit.apply(tree, planned)

    return run


@pytest.fixture
def undone() -> Callable[[Path], list[str]]:
    def run(root: Path) -> list[str]:
        tree = Tree(root)
        with commit.locked(tree):
            return commit.unapply(tree)

    return run
