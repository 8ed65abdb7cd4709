"""The exported JSON Schema is what the models say, and the shipped files name it."""

from pathlib import Path

import pytest

from recipe.config.schema import FOLDER, MODELS, texts, write

CONFIGS = FOLDER.parent


def test_the_exported_schema_is_up_to_date() -> None:
    written = {name: (FOLDER / name).read_text(encoding="utf-8") for name in texts()}
    assert written == texts(), "run: python -m recipe.config.schema"


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    assert len(write(tmp_path)) == len(MODELS)
    (tmp_path / "profile.json").write_text("{}")
    assert write(tmp_path) == [tmp_path / "profile.json"]


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
