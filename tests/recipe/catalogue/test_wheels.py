"""Wheels of releases: found in the cache and fetched with pip."""

from pathlib import Path

import pytest

from recipe.applier.manifest import sha256
from recipe.catalogue import compile as catalogue
from recipe.catalogue.wheels import wheel
from recipe.errors import Exit, Unreachable


def test_a_release_that_the_index_does_not_have_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(Unreachable, match=r"pip cannot fetch vllm 0\.0\.1: ERROR: ") as error:
        wheel("0.0.1")
    assert error.value.exit == Exit.UNREACHABLE
    assert capsys.readouterr().err == f"fetching vllm 0.0.1 into {tmp_path / 'wheels'}\n"


@pytest.mark.wheel
def test_a_wheel_knows_the_files_of_the_release_by_its_own_record() -> None:
    found = wheel("0.33.0")
    data = found.read("vllm/config/speculative.py")
    assert data is not None
    assert found.pristine_by_release("vllm/config/speculative.py", data)
    assert not found.pristine_by_release("vllm/config/speculative.py", data + b"\n")
    assert found.read("vllm/nothing.py") is None
    assert sha256(data) in catalogue.baseline("0.33.0")["vllm/config/speculative.py"]
