"""Patches × releases on small sources: which state each cell has, and what is said about it."""

from pathlib import Path

import pytest

from recipe.catalogue import compile as catalogue
from recipe.catalogue import record
from recipe.catalogue.audit import Column, column
from recipe.catalogue.compile import Patch
from recipe.catalogue.releases import Release, known
from tests.recipe.catalogue.sources import Memory, patch

VERSIONS = ["0.30.0", "0.31.0", "0.32.0", "0.33.0"]
OLD = "def f():\n    x = 1\n    return x\n"
FIXED = "def f():\n    x = 2\n    return x\n"
GONE = "def g():\n    return 1\n"
EDIT = '  - {{op: replace, file: vllm/a.py, when: "{when}", in: f, old: x = 1, new: x = 2}}\n'


def judge(patches: list[Patch], version: str, files: dict[str, str] | str, *, pristine: bool = True) -> Column:
    contents = {"vllm/a.py": files} if isinstance(files, str) else files
    return column(version, Memory(version, contents, pristine=pristine), patches, VERSIONS)


def test_a_patch_in_its_range_has_the_state_of_its_plan(tmp_path: Path) -> None:
    fix = patch(tmp_path, "fix", EDIT.format(when=">=0.31,<0.33"))
    states = {
        content: judge([fix], "0.32.0", content).cells["fix"].state for content in (OLD, FIXED, GONE, "def f(:\n")
    }
    assert states == {OLD: "pending", FIXED: "upstreamed", GONE: "drift:scope", "def f(:\n": "drift:syntax"}


def test_a_change_that_the_release_does_not_have_is_not_upstream(tmp_path: Path) -> None:
    fix = patch(tmp_path, "fix", EDIT.format(when=">=0.31,<0.33"))
    assert judge([fix], "0.32.0", FIXED, pristine=False).cells["fix"].state == "already-unknown"


def test_outside_its_range_a_patch_says_what_it_would_be_inside(tmp_path: Path) -> None:
    fix = patch(tmp_path, "fix", EDIT.format(when=">=0.31,<0.33"))
    found = {}
    for content in (OLD, FIXED, GONE):
        cell = judge([fix], "0.34.0", content).cells["fix"]
        found[content] = (cell.state, cell.widened.state if cell.widened else None)
    assert found == {
        OLD: ("not-applicable", "pending"),
        FIXED: ("upstreamed", None),
        GONE: ("not-applicable", "drift:scope"),
    }


def test_a_drift_names_the_nearest_place_and_the_release_that_the_patch_last_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "vllm-0.32.0.json").write_text('{"vllm/a.py": "0"}', encoding="utf-8")
    monkeypatch.setattr(catalogue, "PATCHES", tmp_path)
    fix = patch(tmp_path, "fix", EDIT.format(when=">=0.31,<0.33"))
    (line,) = judge([fix], "0.34.0", "def ff():\n    x = 1\n").cells["fix"].reasons()
    assert line == (
        "fix: vllm/a.py: f: drift:scope: no definition of f — nearest: vllm/a.py:1: ff: def ff(): (last fitted 0.32.0)"
    )


def test_of_two_variants_the_nearest_is_the_one_that_is_widened(tmp_path: Path) -> None:
    edits = EDIT.format(when=">=0.30,<0.31") + EDIT.format(when=">=0.33,<0.34").replace("x = 1", "x = 5")
    fix = patch(tmp_path, "fix", edits)
    after = judge([fix], "0.34.0", OLD.replace("1", "5")).cells["fix"].widened
    between = judge([fix], "0.31.0", OLD).cells["fix"].widened
    assert after is not None
    assert (after.like, after.state) == ("0.33.0", "pending")
    assert between is not None
    assert (between.like, between.state) == ("0.30.0", "pending")


def test_a_name_that_is_imported_already_does_not_make_a_patch_upstreamed(tmp_path: Path) -> None:
    edits = '  - {op: import, file: vllm/a.py, when: ">=0.31,<0.33", add: {import: os}}\n'
    fix = patch(tmp_path, "fix", edits + EDIT.format(when=">=0.31,<0.33"))
    cell = judge([fix], "0.34.0", "import os\n\n\n" + GONE).cells["fix"]
    assert cell.state == "not-applicable"


def test_an_edit_that_is_missing_between_two_releases_that_have_it_is_tried_there(tmp_path: Path) -> None:
    other = EDIT.format(when=">=0.30,<0.34").replace("a.py", "b.py")
    fix = patch(tmp_path, "fix", other + EDIT.format(when=">=0.30,<0.34,!=0.31.0"))
    sources = {"vllm/a.py": OLD, "vllm/b.py": OLD}
    cell = judge([fix], "0.31.0", sources).cells["fix"]
    assert cell.state == "pending"
    assert cell.widened is not None
    assert cell.widened.state == "pending"
    assert judge([fix], "0.32.0", sources).cells["fix"].widened is None


def test_case_a1_a_patch_that_drifts_does_not_hide_the_others(tmp_path: Path) -> None:
    one = patch(tmp_path, "one", EDIT.format(when=">=0.31,<0.33"))
    two = patch(tmp_path, "two", EDIT.format(when=">=0.31,<0.33").replace("a.py", "b.py"))
    found = judge([one, two], "0.32.0", {"vllm/a.py": GONE, "vllm/b.py": OLD})
    assert {id: cell.state for id, cell in found.cells.items()} == {"one": "drift:scope", "two": "pending"}
    narrow = patch(tmp_path, "one", EDIT.format(when=">=0.31,<0.32"))
    found = judge([narrow, two], "0.32.0", {"vllm/a.py": GONE, "vllm/b.py": OLD})
    assert {id: cell.state for id, cell in found.cells.items()} == {"one": "not-applicable", "two": "pending"}


def test_patches_that_change_the_same_place_are_found_together_although_each_applies(tmp_path: Path) -> None:
    one = patch(tmp_path, "one", EDIT.format(when=">=0.31,<0.33"))
    two = patch(tmp_path, "two", EDIT.format(when=">=0.31,<0.33").replace("x = 2", "x = 3"))
    found = judge([one, two], "0.32.0", OLD)
    assert {cell.state for cell in found.cells.values()} == {"pending"}
    assert len(found.together) == 2
    assert "one and two change the same place of vllm/a.py" in found.together[0]


def test_the_record_tells_what_an_audit_found_otherwise(tmp_path: Path) -> None:
    release = Release(known()[0].order, "0.32.0", "vllm", "0" * 64)
    fix = patch(tmp_path, "fix", EDIT.format(when=">=0.31,<0.33"))
    before = record.make([fix], [judge([fix], "0.32.0", OLD)], [release])
    assert before.differences(before) == []
    after = record.make([fix], [judge([fix], "0.32.0", FIXED)], [release])
    assert before.differences(after) == ["fix on 0.32.0: upstreamed, recorded pending"]
    wider = patch(tmp_path, "fix", EDIT.format(when=">=0.31,<0.34"))
    changed = record.make([wider], [judge([wider], "0.32.0", OLD)], [release])
    assert before.differences(changed) == ["fix: is not the patch that was audited"]


def test_the_prose_of_a_patch_is_not_part_of_what_was_audited(tmp_path: Path) -> None:
    fix = patch(tmp_path, "fix", EDIT.format(when=">=0.31,<0.33"))
    before = record.digest(fix)
    (tmp_path / "fix.yaml").write_text((tmp_path / "fix.yaml").read_text().replace("why: a test", "why: another"))
    assert record.digest(patch(tmp_path, "fix", EDIT.format(when=">=0.31,<0.33"))) == before
