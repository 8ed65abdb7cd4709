"""Patched environments of the process engine: a hard-linked copy of vLLM, patched, put before the original.

An environment is known by a digest of everything it is made from, so it is found before it is built and told
apart from one whose virtual environment changed meanwhile.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from launch.nodes.staging import Bars, silent
from recipe.applier import commit
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.tree import Tree, record_rows
from recipe.catalogue.target import drifted, site_packages, translated
from recipe.config import paths
from recipe.errors import HallmarkError, Problem, Refused


@dataclass(frozen=True)
class Environment:
    """Where a patched copy is (or will be), and the sha256 (hex) that names it."""

    folder: Path
    digest: str
    patchset: PatchSet
    venv: Path

    def stage(self, say: Callable[[str], None], bars: Bars = silent) -> None:
        build(self)
        if wrong := differences(self):
            error = Refused(f"{self.folder} is not as it was built — remove that folder, it is made again")
            error.problems = (*error.problems, *(Problem(line) for line in wrong))
            raise error

    def differences(self) -> list[str]:
        return differences(self)

    def unrestorable(self) -> list[str]:
        # One that was removed is made again, as the same one as long as what it is made from is the same.
        return differences(self) if self.folder.exists() else differences_beneath(self)

    def notes(self) -> list[str]:
        return []


def describe(venv: Path, patchset: PatchSet) -> Environment:
    """Name the environment that this virtual environment and patch set make; reads only.

    The digest covers RECORD of every distribution, the interpreter's version and the patch set.
    Errors: HallmarkError when there is no such virtual environment.
    """
    config = venv / "pyvenv.cfg"
    if not config.is_file():
        raise HallmarkError(
            f"there is no virtual environment {venv}",
            hint="`make demo` makes the one of the demo; else python3 -m venv, and install vLLM into it",
        )
    settings: dict[str, str] = {}
    for line in config.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        settings[key.strip()] = value.strip()
    made_from = {
        "interpreter": settings.get("version") or settings.get("version_info"),
        "patchset": patchset.sha256,
        "distributions": {
            record.parent.name: hashlib.sha256(record.read_bytes()).hexdigest()
            for record in sorted(site_packages(venv).glob("*.dist-info/RECORD"))
        },
    }
    digest = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
    name = f"{patchset.sha256[:8]}-{digest[:8]}"
    return Environment(paths.state() / "envs" / name, digest, patchset, venv)


def unmade(patchset: PatchSet) -> Path:
    """How the folder's name begins while its virtual environment is not installed; reads and makes nothing."""
    return paths.state() / "envs" / patchset.sha256[:8]


def build(environment: Environment) -> bool:
    """Make the environment unless it is there. Returns whether it had to be made.

    Errors: Refused with every drift, or when it cannot be written; nothing is left behind then.
    """
    with _lock(), translated():
        if environment.folder.is_dir():
            return False
        for leftover in _folder().glob(".*.new"):
            shutil.rmtree(leftover)
        fresh = _folder() / f".{environment.folder.name}.new"
        try:
            _copy(Tree(site_packages(environment.venv)), fresh)
            tree = Tree(fresh)
            with commit.locked(tree):
                planned = plan(tree, environment.patchset)
                if problems := planned.problems():
                    raise drifted(problems)
                commit.apply(tree, planned)
            fresh.rename(environment.folder)
        except OSError as error:
            raise Refused(f"cannot make the environment: {error.strerror}", where=str(fresh)) from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return True


def differences(environment: Environment) -> list[str]:
    """What is no longer as it was built: patched files, or the virtual environment beneath."""
    if not environment.folder.is_dir():
        return [f"{environment.folder} is missing"]
    try:
        with translated():
            wrong = commit.verify(Tree(environment.folder))
    except HallmarkError as error:
        wrong = [str(error)]
    return [*(f"{environment.folder}: {line}" for line in wrong), *differences_beneath(environment)]


def differences_beneath(environment: Environment) -> list[str]:
    """Why the environment cannot be made again as it was: its virtual environment is another one now."""
    try:
        now = describe(environment.venv, environment.patchset)
    except HallmarkError as error:
        return [str(error)]
    if now.digest == environment.digest:
        return []
    return [f"{environment.venv} changed: the environment would be {now.digest[:8]} now"]


def _copy(tree: Tree, target: Path) -> None:
    for file in sorted(record_rows(tree.record(tree.dist_info))):
        # Scripts lie outside (../../../bin) and stay with the virtual environment.
        if ".." in PurePosixPath(file).parts:
            continue
        source, copy = tree.path(file), target / file
        if not source.is_file():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, copy)
        except OSError:
            # Another file system, or one without links.
            shutil.copy2(source, copy)


def _folder() -> Path:
    folder = paths.state() / "envs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _lock() -> Iterator[None]:
    with (_folder() / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
