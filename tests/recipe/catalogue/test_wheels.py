"""Wheels of releases: found in the cache and fetched with pip."""

import zipfile
from pathlib import Path

import pytest

from recipe.applier.manifest import sha256
from recipe.catalogue import compile as catalogue
from recipe.catalogue.wheels import Wheel, wheel
from recipe.errors import Exit, HallmarkError, Unreachable


def test_a_release_that_the_index_does_not_have_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(Unreachable, match=r"pip cannot fetch vllm 0\.0\.1: ERROR: ") as error:
        wheel("0.0.1")
    assert error.value.exit == Exit.UNREACHABLE
    assert capsys.readouterr().err == f"fetching vllm 0.0.1 into {tmp_path / 'wheels'}\n"


def made(path: Path, version: str = "0.33.0", record: bytes | None = b"vllm/__init__.py,,\n") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("vllm/__init__.py", "VALUE = 1\n" * 1000)
        if record is not None:
            archive.writestr(f"vllm-{version}.dist-info/RECORD", record)
    return path


def test_a_wheel_that_was_cut_off_or_is_none_says_so(tmp_path: Path) -> None:
    whole = made(tmp_path / "whole.whl")
    cut = tmp_path / "cut.whl"
    cut.write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(HallmarkError, match=r"cut\.whl: is not a wheel, or not all of one — .* fetch it again"):
        Wheel(cut)
    with pytest.raises(HallmarkError, match=r"bare\.whl: is not a wheel — name a \.whl file"):
        Wheel(made(tmp_path / "bare.whl", record=None))
    with pytest.raises(HallmarkError, match=r"is of no release: 'new' in vllm-new\.dist-info is not a version"):
        Wheel(made(tmp_path / "unversioned.whl", "new"))


def test_a_damaged_file_in_a_wheel_is_told_by_its_name(tmp_path: Path) -> None:
    path = made(tmp_path / "damaged.whl")
    data = bytearray(path.read_bytes())
    start = data.index(b"vllm/__init__.py") + len(b"vllm/__init__.py")
    for at in (start, start + 3, start + 9):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(
        HallmarkError, match=r"damaged\.whl: vllm/__init__\.py in it is damaged — fetch the wheel again"
    ):
        Wheel(path).read("vllm/__init__.py")


def test_the_record_of_a_wheel_need_not_be_utf_8(tmp_path: Path) -> None:
    assert len(list(Wheel(made(tmp_path / "odd.whl", record=b"vllm/caf\xe9.py,,\nvllm/__init__.py,,\n")).files())) == 2


@pytest.mark.wheel
def test_a_wheel_knows_the_files_of_the_release_by_its_own_record() -> None:
    found = wheel("0.33.0")
    data = found.read("vllm/config/speculative.py")
    assert data is not None
    assert found.pristine_by_release("vllm/config/speculative.py", data)
    assert not found.pristine_by_release("vllm/config/speculative.py", data + b"\n")
    assert found.read("vllm/nothing.py") is None
    assert sha256(data) in catalogue.baseline("0.33.0")["vllm/config/speculative.py"]
