"""Whether patched modules import, and which patch of the profile is told to be at fault."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recipe.image.inside import imports, platform
from recipe.image.inside.request import Request
from recipe.image.inside.result import Result

Check = Callable[..., Result]
FILES = {
    "patched_tree/__init__.py": "",
    "patched_tree/kept.py": "",
    "patched_tree/new.py": "from patched_tree.kept import helper\n",
    "patched_tree/own.py": "import patched_tree.between\n",
    "patched_tree/between.py": "import patched_tree.new\n",
}
PATCHES = {"adds-new": ["patched_tree/new.py"], "changes-own": ["patched_tree/own.py", "patched_tree/kept.py"]}
ERROR = "ImportError: cannot import name 'helper' from 'patched_tree.kept'"


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Check]:
    """Checks a tree of these files; `also`: what fails in the base."""
    monkeypatch.setattr(platform, "missing", lambda: None)
    monkeypatch.syspath_prepend(str(tmp_path))
    for file, text in FILES.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    manifest = {
        "files": {file: {} for files in PATCHES.values() for file in files},
        "patches": {id: {"state": "applied", "edits": [{"file": f} for f in files]} for id, files in PATCHES.items()},
    }
    (tmp_path / "vllm-1.dist-info").mkdir()
    (tmp_path / "vllm-1.dist-info/PATCHES.json").write_text(json.dumps(manifest))
    places = {"adds-new": "p.yaml:7: patches.required", "changes-own": "p.yaml:8: patches.optional"}
    asked = Request(tmp_path, tmp_path / "base", "", "cuda", (9, 0), 1, "m", [], {}, None, False, {}, "a", [], places)

    def run(also: dict[str, str] | None = None, **changes: Any) -> Result:
        monkeypatch.setattr(imports, "_failing_in_base", lambda *_: also or {})
        return imports.check(replace(asked, **changes))

    yield run
    for name in [name for name in sys.modules if name.partition(".")[0] == "patched_tree"]:
        del sys.modules[name]


def test_the_patch_in_whose_file_the_error_arises_is_named_once_with_its_line_in_the_profile(check: Check) -> None:
    result = check()
    assert result.verdict == "fail"
    [problem] = result.problems
    assert problem.startswith(f"p.yaml:7: patches.required: adds-new, patched_tree/new.py: does not import: {ERROR}")
    assert problem.endswith(" — correct the patch")


def test_a_patch_that_the_profile_does_not_name_is_told_by_its_file(check: Check) -> None:
    [problem] = check(patches={}).problems
    assert problem.startswith(f"patched_tree/new.py: does not import: {ERROR}")


def test_what_does_not_import_in_the_base_either_is_no_fault_of_a_patch(check: Check) -> None:
    result = check({"patched_tree.new": "no", "patched_tree.own": "no"})
    assert (result.verdict, result.detail) == (
        "skipped",
        "2 of 3 modules do not import in the base image either: patched_tree.new: no",
    )
    # One that the base imports still fails the image.
    assert check({"patched_tree.new": "no"}).verdict == "fail"


def test_modules_that_import_are_counted(check: Check, tmp_path: Path) -> None:
    (tmp_path / "patched_tree/kept.py").write_text("helper = 1\n")
    result = check()
    assert (result.verdict, result.detail) == ("pass", "3 modules")
