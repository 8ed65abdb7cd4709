"""The shipped patch files: they load, compile, and say what a reader of the catalogue needs."""

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from recipe.catalogue import compile as catalogue
from recipe.catalogue import releases

ROOT = Path(__file__).parents[2]
SHIPPED = [catalogue.PATCHES / f"{name}.yaml" for name in catalogue.series()]
DEMO = sorted((ROOT / "scripts" / "demo" / "patches").glob("*.yaml"))
ALL = pytest.mark.parametrize("path", [*SHIPPED, *DEMO], ids=lambda path: path.stem)


@ALL
def test_every_edit_of_a_patch_applies_to_some_release(path: Path) -> None:
    patch = catalogue.load_patch(path)
    versions = [*releases.nightlies(), *(release.version for release in releases.known())]
    used: set[int] = set()
    for version in versions:
        edits = catalogue._compile(patch, True, version)["edits"]
        assert isinstance(edits, list)
        used |= {index for index, edit in enumerate(edits) if edit["applies"]}
    assert used == set(range(len(patch.value.edits)))


@ALL
def test_every_range_has_an_upper_bound(path: Path) -> None:
    for edit in catalogue.load_patch(path).value.edits:
        assert any(part.operator in ("<", "<=", "==") for part in SpecifierSet(edit.when)), edit.file


@ALL
def test_an_overlay_adds_a_module_of_this_project_and_is_tested(path: Path) -> None:
    for edit in catalogue.load_patch(path).value.edits:
        if edit.op == "overlay":
            name = Path(edit.file).stem
            assert name.startswith("hallmark_")
            assert (ROOT / "tests" / "overlay" / f"test_{name}.py").is_file()


@ALL
def test_the_proofs_that_a_patch_names_are_there(path: Path) -> None:
    assert [proof for proof in catalogue.load_patch(path).value.proof if not (ROOT / proof).is_file()] == []


def test_every_overlay_module_belongs_to_a_patch() -> None:
    used = {edit.source for path in SHIPPED for edit in catalogue.load_patch(path).value.edits if edit.op == "overlay"}
    overlay = catalogue.OVERLAY
    assert {str(path.relative_to(overlay)) for path in overlay.rglob("*.py")} == used


def test_the_demos_patches_are_in_no_catalogue_of_the_project() -> None:
    assert not {path.name for path in DEMO} & {path.name for path in SHIPPED}
    bad = catalogue.load_patch(DEMO[0]).value
    assert bad.id == "ngram-off-by-one"
    assert bad.title.startswith("DEMO ONLY")
