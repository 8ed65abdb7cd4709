"""The patch engine's time against the bare parse of the files it touches, and the command's start."""

import ast
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recipe.applier import commit
from recipe.applier.plan import plan
from recipe.applier.tree import Tree
from recipe.catalogue.compile import compile_profile
from recipe.catalogue.wheels import wheel
from recipe.config.load import load_profile
from recipe.config.paths import CHECKOUT

_RUNS = 9


@dataclass(frozen=True)
class Figure:
    """A median time in seconds and its ratio to another of the same run."""

    what: str
    seconds: float
    ratio: float
    of: str
    goal: str


def measure() -> list[Figure]:
    """Plan, second plan, and start of the command."""
    patchset = compile_profile(load_profile(CHECKOUT, "gb10-nvfp4"))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with zipfile.ZipFile(wheel("0.33.0").path) as archive:
            archive.extractall(
                root, [name for name in archive.namelist() if name.endswith(".py") or ".dist-info" in name]
            )
        files = {edit["file"] for patch in patchset.patches for edit in patch["edits"]}
        sources = [data for file in sorted(files) if (data := Tree(root).read(file)) is not None]
        parse = _median(lambda: [ast.parse(source) for source in sources])
        first = _median(lambda: plan(Tree(root), patchset))
        tree = Tree(root)
        with commit.locked(tree):
            commit.apply(tree, plan(tree, patchset))
        second = _median(lambda: plan(Tree(root), patchset))
    bare = _median(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    command = [str(Path(sys.executable).parent / "hallmark"), "--help"]
    start = _median(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    return [
        Figure("bare `ast.parse` of the touched files", parse, 1.0, "itself", ""),
        Figure("plan: all edits made and checked in memory", first, first / parse, "the parse", "5"),
        Figure("plan of a tree that is patched already", second, second / parse, "the parse", "1.5"),
        Figure("`hallmark --help`", start, start / bare, "a bare Python", "250 ms"),
    ]


def _median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
