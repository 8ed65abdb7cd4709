"""The lint of the catalogue: what is refused beside the format, with the line and the words.

A file of tests/cases/lint holds patches and small releases, which are audited first; beside it lies the expected
text, one message a line, nothing for one that is right. HALLMARK_REFRESH=1 writes the texts again; read the
difference.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

from recipe.catalogue import lint, record
from recipe.catalogue.audit import column
from recipe.catalogue.compile import load_patch
from recipe.catalogue.releases import Release
from recipe.config.paths import CHECKOUT
from tests.recipe.catalogue.sources import Memory

CASES = sorted((CHECKOUT / "tests/cases/lint").glob("*.yaml"))


def linted(case: dict[str, Any], folder: Path) -> list[str]:
    for id, text in case["patches"].items():
        (folder / f"{id}.yaml").write_text(text, encoding="utf-8")
    patches = [load_patch(Path(f"{id}.yaml")) for id in case["patches"]]
    listed = [Release(("vllm", Version(version)), version, "vllm", "0" * 64) for version in case["releases"]]
    columns = [
        column(version, Memory(version, {"vllm/a.py": text}), patches, list(case["releases"]))
        for version, text in case["releases"].items()
    ]
    audited = record.make(patches, columns, listed)
    return [str(problem) for problem in lint.problems(patches, audited, listed, case.get("nightlies", []))]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_catalogue_is_refused_with_every_reason_and_its_line(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = "\n".join(linted(yaml.safe_load(path.read_text(encoding="utf-8")), tmp_path))
    expected = path.with_suffix(".txt")
    if os.environ.get("HALLMARK_REFRESH"):
        expected.write_text(told + "\n" if told else "", encoding="utf-8")
    assert told == expected.read_text(encoding="utf-8").strip()


def test_a_patch_that_has_changed_since_the_audit_is_to_be_audited_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    case = yaml.safe_load((CHECKOUT / "tests/cases/lint/right.yaml").read_text(encoding="utf-8"))
    assert linted(case, tmp_path) == []
    (patch,) = (load_patch(Path(f"{id}.yaml")) for id in case["patches"])
    listed = [Release(("vllm", Version("0.30.0")), "0.30.0", "vllm", "0" * 64)]
    states = {"0.30.0": {"fix": "pending"}}
    old = record.Record(patches={"fix": "0" * 64}, states=states)
    assert [str(found) for found in lint.problems([patch], old, listed)] == [
        "fix.yaml:1: has changed since it was audited — make relock"
    ]
    never = record.Record(patches={"fix": record.digest(patch)})
    assert [str(found) for found in lint.problems([patch], never, listed)] == [
        "fix.yaml:1: was not audited on 0.30.0 — make relock"
    ]


def test_the_shipped_catalogue_is_right() -> None:
    assert lint.main() == 0
