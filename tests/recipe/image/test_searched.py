"""What is remembered of a search: which layers had none of which secrets, without the secrets."""

from pathlib import Path

import pytest

from recipe.image import searched
from recipe.image.leaks import forms

LAYERS = ["sha256:" + "1" * 64, "sha256:" + "2" * 64]
ONE, OTHER = {"A": forms("a-secret-of-some-length")}, {"B": forms("another-secret-of-some-length")}


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HALLMARK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_each_layer_is_searched_once_for_each_secret() -> None:
    assert searched.missing(LAYERS, ONE) == ONE
    searched.note(LAYERS[:1], ONE)
    assert searched.missing(LAYERS[:1], ONE) == {}
    assert searched.missing(LAYERS, ONE) == ONE
    searched.note(LAYERS, ONE)
    assert searched.missing(LAYERS, {**ONE, **OTHER}) == OTHER
    # Its name is nothing to go by.
    assert searched.missing(LAYERS, {"A": OTHER["B"], "C": ONE["A"]}) == {"A": OTHER["B"]}


def test_nothing_of_a_secret_is_recorded_and_without_this_users_key_the_record_is_worth_nothing(folders: Path) -> None:
    searched.note(LAYERS, ONE)
    written = b"".join(path.read_bytes() for path in folders.rglob("*") if path.is_file())
    assert written and not any(form in written for form in ONE["A"])
    key = folders / "state/searched.key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.write_bytes(b"")
    searched.note(LAYERS, ONE)
    # Nothing may be remembered under a key that everybody knows.
    assert searched.missing(LAYERS, ONE) == ONE
    key.unlink()
    assert searched.missing(LAYERS, ONE) == ONE


def test_a_record_that_was_damaged_or_cannot_be_written_means_that_it_is_searched_again(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched.note(LAYERS, ONE)
    for path in (folders / "cache/searched").iterdir():
        path.write_bytes(b"\xff" + path.read_bytes()[:40])
    assert searched.missing(LAYERS, ONE) == ONE
    (folders / "file").write_text("")
    monkeypatch.setenv("HALLMARK_CACHE", str(folders / "file"))
    searched.note(LAYERS, ONE)
    assert searched.missing(LAYERS, ONE) == ONE
    monkeypatch.setenv("HALLMARK_STATE", str(folders / "file"))
    searched.note(LAYERS, ONE)
