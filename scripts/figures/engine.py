"""The patch engine's time and memory on the whole catalogue, beside the bare parse of the files that it touches,
LibCST and GNU patch."""

import ast
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recipe.applier import commit
from recipe.applier.plan import plan
from recipe.applier.tree import Tree
from recipe.catalogue.compile import catalogue, compile_patches
from recipe.catalogue.diff import unified
from recipe.catalogue.wheels import wheel
from recipe.config import paths
from recipe.image import pyz
from scripts.figures.pythons import pythons

VERSION = "0.33.0"
_RUNS = 9
# Run in an environment of its own, as the project does not depend on LibCST.
_LIBCST = """
import json, statistics, sys, time
import libcst
sources = [open(path, "rb").read() for path in sys.argv[1:]]
times = []
for _ in range(3):
    began = time.process_time()
    for source in sources:
        assert libcst.parse_module(source).bytes == source
    times.append(time.process_time() - began)
print(json.dumps({"seconds": statistics.median(times), "version": libcst.LIBCST_VERSION}))
"""
_PARSE = """
import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path, "rb").read())
"""


@dataclass(frozen=True)
class Figure:
    """A median time in seconds, or a peak of memory in MiB, and its ratio to another of the same run."""

    what: str
    value: float
    ratio: float
    of: str
    goal: str = ""


@dataclass(frozen=True)
class Measured:
    """`files` touched and `edits` made of the catalogue; the versions of Python on which the archive planned alike."""

    files: int
    edits: int
    times: list[Figure]
    memory: list[Figure]
    pythons: list[str]
    archive: int


def measure() -> Measured:
    """Plan the whole catalogue on one release, in this process and as the command of an image build."""
    patchset = compile_patches([(patch, False) for patch in catalogue()], VERSION)
    with _unpacked() as folder:
        root = folder / "site"
        planned = plan(Tree(root), patchset)
        touched = [change.file for change in planned.changes if change.current is not None]
        sources = [(root / file).read_bytes() for file in touched]
        file, archive, difference = folder / "patchset.json", folder / pyz.NAME, folder / "changes.diff"
        file.write_bytes(patchset.canonical())
        archive.write_bytes(pyz.pack())
        difference.write_text(unified(planned), encoding="utf-8", newline="")
        command = [str(archive), "plan", "--target", str(root), "--patchset", str(file)]
        paths_of = [str(root / name) for name in touched]
        libcst = [_libcst(), "-c", _LIBCST, *paths_of]
        slow = json.loads(subprocess.check_output(libcst))
        times = _medians(
            {
                "parse": lambda: [ast.parse(source) for source in sources],
                "plan": lambda: plan(Tree(root), patchset),
            },
            time.process_time,
        )
        works: dict[str, Callable[[], object]] = {
            "python": lambda: _run([sys.executable, "-c", "pass"]),
            "pyz": lambda: _run([sys.executable, "-B", *command]),
            "patch": lambda: _run(["patch", "-p1", "--dry-run", "-d", str(root), "-i", str(difference)]),
            "help": lambda: _run([str(Path(sys.executable).parent / "hallmark"), "--help"]),
        }
        times |= _medians(works, time.perf_counter)
        peaks = {
            "parse": _peak([sys.executable, "-c", _PARSE, *paths_of]),
            "pyz": _peak([sys.executable, "-B", *command]),
            "libcst": _peak(libcst),
        }
        alike = [version for version, python in pythons().items() if _same_plan(python, command, len(patchset.patches))]
        tree = Tree(root)
        with commit.locked(tree):
            commit.apply(tree, plan(tree, patchset))
        second = _medians({"second": lambda: plan(Tree(root), patchset)}, time.process_time)["second"]
    parse = times["parse"]
    edits = sum(len(patch.edits) for patch in planned.patches)
    return Measured(
        len(touched),
        edits,
        [
            Figure(f"bare `ast.parse` of the {len(touched)} files", parse, 1.0, "itself"),
            Figure(
                "plan: all edits made and checked in memory", times["plan"], times["plan"] / parse, "the parse", "5"
            ),
            Figure("plan of a tree that is patched already", second, second / parse, "the parse", "1.5"),
            Figure(f"LibCST {slow['version']}: parse and print, no edit", *_of(slow["seconds"], parse, "the parse")),
            Figure("a bare Python, as a process", times["python"], 1.0, "itself"),
            Figure("`applier.pyz plan`, as a process", *_of(times["pyz"], times["python"], "a bare Python")),
            Figure("GNU `patch --dry-run` of the same changes", *_of(times["patch"], times["python"], "a bare Python")),
            Figure("`hallmark --help`", *_of(times["help"], times["python"], "a bare Python"), "250 ms"),
        ],
        [
            Figure("bare `ast.parse` of the files, one after another", peaks["parse"] / 1024, 1.0, "itself"),
            Figure("`applier.pyz plan`", *_of(peaks["pyz"] / 1024, peaks["parse"] / 1024, "the parse")),
            Figure("LibCST", *_of(peaks["libcst"] / 1024, peaks["parse"] / 1024, "the parse")),
        ],
        alike,
        len(pyz.pack()),
    )


def _of(value: float, other: float, name: str) -> tuple[float, float, str]:
    return value, value / other, name


@contextmanager
def _unpacked() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(wheel(VERSION).path) as archive:
            members = [name for name in archive.namelist() if name.endswith(".py") or ".dist-info" in name]
            archive.extractall(folder / "site", members)
        yield folder


def _medians(works: dict[str, Callable[[], object]], clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of each work by `clock`; the works take turns, so that what else the machine does falls on all."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(_RUNS):
        for name, work in works.items():
            began = clock()
            work()
            times[name].append(clock() - began)
    return {name: statistics.median(listed) for name, listed in times.items()}


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _peak(command: list[str]) -> float:
    """Peak of resident memory of a command, in KiB: a child of its own asks for that of its child."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)"
    code += "; print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    return float(subprocess.check_output([sys.executable, "-c", code, *command]))


def _same_plan(python: str, command: list[str], patches: int) -> bool:
    done = subprocess.run([python, "-I", "-S", "-B", *command], check=False, capture_output=True)
    return done.returncode == 0 and len(json.loads(done.stdout)["patches"]) == patches


def _libcst() -> str:
    """The Python of an environment with LibCST, kept in the cache."""
    folder = paths.cache() / "figures" / "libcst"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "libcst"], check=True)
        (folder / "complete").touch()
    return str(python)
