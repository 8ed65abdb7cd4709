"""The exported JSON Schema is what the models say, and the shipped files name it."""

from pathlib import Path

import pytest

from recipe.config.paths import CHECKOUT
from recipe.config.schema import MODELS, text

FOLDER = CHECKOUT / "configs" / "schema"
CONFIGS = FOLDER.parent


@pytest.mark.parametrize("name", MODELS)
def test_the_exported_schema_is_up_to_date(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == text(MODELS[name]), "run: python -m scripts.pages"


@pytest.mark.parametrize(
    "path",
    [*(CONFIGS / "profiles").glob("*.yaml"), *(CONFIGS / "hardware").glob("*.yaml"), CONFIGS / "support.yaml"],
    ids=lambda path: path.stem,
)
def test_every_shipped_file_tells_editors_its_schema(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert schema != first
    assert (path.parent / schema).is_file()
