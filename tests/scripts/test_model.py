"""The demo's model: what its text is, and when its folder is written."""

import hashlib
import json
from pathlib import Path

import pytest

from scripts.demo import model


def test_the_lists_have_five_to_nine_words_and_share_none() -> None:
    words = [word for cycle in model.CYCLES for word in cycle]
    assert {len(cycle) for cycle in model.CYCLES} <= set(range(5, 10))
    assert len(set(words)) == len(words)


def test_the_text_after_a_word_runs_through_its_list_and_starts_again() -> None:
    assert model.continuation("Friday", 5) == " Saturday Sunday Monday Tuesday Wednesday"


def test_every_token_has_a_row_of_its_own_and_two_ranks_can_share_the_heads() -> None:
    settings = model.config()
    assert settings["vocab_size"] == len(set(model.vocabulary()))
    assert settings["num_attention_heads"] % 2 == settings["num_key_value_heads"] % 2 == 0


def test_a_folder_that_the_script_did_not_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="was not written by model"):
        model.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def write_marker(folder: Path, source: str, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    digest = hashlib.sha256(b"{}").hexdigest()
    (folder / model.MARKER).write_text(json.dumps({"source": source, "files": {"config.json": digest}}))


def test_a_current_folder_is_left_alone(tmp_path: Path) -> None:
    write_marker(tmp_path, model._source(), b"{}")
    assert model.write(tmp_path) is False


@pytest.mark.parametrize(("source", "content"), [("another script", b"{}"), (model._source(), b"{} ")])
def test_another_script_or_a_changed_file_makes_a_folder_outdated(source: str, content: bytes, tmp_path: Path) -> None:
    write_marker(tmp_path, source, content)
    assert not model.is_current(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"source": "x", "files": 3}'])
def test_a_broken_marker_makes_a_folder_outdated(text: str, tmp_path: Path) -> None:
    (tmp_path / model.MARKER).write_text(text)
    assert not model.is_current(tmp_path)
