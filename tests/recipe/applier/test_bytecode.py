"""Compiled files beside rewritten sources keep no trace of when they were made."""

import importlib.util
import os
from pathlib import Path

from recipe.applier.bytecode import refresh

_DAY_NS = 86_400 * 10**9


def times(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_replaced_compiled_file_is_as_old_as_its_source_and_its_folder_as_old_as_before(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("x = 1\n")
    compiled = Path(importlib.util.cache_from_source(str(source)))
    compiled.parent.mkdir()
    compiled.write_bytes(b"stale")
    for age, path in enumerate((compiled.parent, source), start=1):
        os.utime(path, ns=(age * _DAY_NS, age * _DAY_NS))
    refresh([source])
    assert compiled.read_bytes() != b"stale"
    assert times(tmp_path) == {
        "a.py": 2 * _DAY_NS,
        "__pycache__": _DAY_NS,
        str(compiled.relative_to(tmp_path)): 2 * _DAY_NS,
    }


def test_a_source_without_compiled_files_gets_none(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("x = 1\n")
    (tmp_path / "__pycache__").mkdir()
    before = times(tmp_path)
    refresh([source])
    assert times(tmp_path) == before
