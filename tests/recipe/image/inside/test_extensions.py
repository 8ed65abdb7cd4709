"""Which hardware a compiled library has code for, read from its bytes."""

import struct
from pathlib import Path

import pytest

from recipe.catalogue.wheels import wheel
from recipe.image.inside import extensions
from recipe.image.inside.extensions import Code, codes_of
from recipe.image.inside.request import Request

PLAIN, EXACT, FAMILY = 0x1008011, 0x108011, 0x1208011


def library(path: Path, *codes: Code) -> None:
    """A library with one section of device code, as nvcc lays it out: an entry with 40 bytes for each code."""
    entries = b"".join(
        struct.pack("<HHIQIIHHIIIQ", 1 if it.ptx else 2, 257, 64, 40, 0, 0, 0, 1, it.architecture, 0, 0, it.flags)
        + bytes(64 - 48 + 40)
        for it in codes
    )
    content = bytes(8) + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries
    names = b"\0.nv_fatbin\0.shstrtab\0"
    header = b"\x7fELF\x02\x01" + bytes(34) + struct.pack("<Q", 64) + bytes(10) + struct.pack("<HHH", 64, 2, 1)
    body = 64 + 2 * 64
    sections = [(1, body, len(content)), (12, body + len(content), len(names))]
    table = b"".join(struct.pack("<IIQQQQ", name, 1, 0, 0, at, size) + bytes(24) for name, at, size in sections)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header[:64].ljust(64, b"\0") + table + content + names)


def request(site: Path, capability: tuple[int, int] | None = (12, 1)) -> Request:
    return Request(site, site, "aarch64", "cuda", capability, 1, "m", [], {}, None, False, {}, "")


@pytest.mark.parametrize(
    ("code", "capability", "runs"),
    [
        (Code(False, 120, PLAIN), (12, 1), True),
        (Code(False, 120, FAMILY), (12, 1), True),
        (Code(False, 120, EXACT), (12, 1), False),
        (Code(False, 121, PLAIN), (12, 0), False),
        (Code(False, 90, EXACT), (9, 0), True),
        (Code(False, 90, PLAIN), (12, 1), False),
        (Code(True, 80, PLAIN), (12, 1), True),
        (Code(True, 90, EXACT), (12, 1), False),
    ],
)
def test_code_runs_where_nvidia_says_that_it_runs(code: Code, capability: tuple[int, int], runs: bool) -> None:
    assert code.runs_on(capability) is runs


def test_every_entry_of_a_library_is_found(tmp_path: Path) -> None:
    codes = [Code(False, 90, EXACT), Code(False, 120, FAMILY), Code(True, 80, 17)]
    library(tmp_path / "a.so", *codes)
    assert codes_of(tmp_path / "a.so") == codes


def test_an_image_for_other_hardware_fails_and_says_for_which(tmp_path: Path) -> None:
    library(tmp_path / "vllm/_C.abi3.so", Code(False, 80, PLAIN), Code(False, 90, EXACT))
    library(tmp_path / "vllm/_moe_C.abi3.so", Code(False, 120, PLAIN))
    result = extensions.check(request(tmp_path))
    assert (result.verdict, result.problems) == (
        "fail",
        ["vllm/_C.abi3.so: has code for 8.0, 9.0 only, the hardware is 12.1 — use a base image built for it"],
    )


def test_a_feature_for_other_hardware_is_only_named(tmp_path: Path) -> None:
    library(tmp_path / "vllm/_C.abi3.so", Code(False, 120, PLAIN))
    library(tmp_path / "vllm/_flashmla_C.abi3.so", Code(False, 90, EXACT))
    result = extensions.check(request(tmp_path))
    assert (result.verdict, result.detail) == ("pass", "code for 12.1, but not in _flashmla_C.abi3.so")


def test_an_image_without_compiled_code_is_not_called_good(tmp_path: Path) -> None:
    assert extensions.check(request(tmp_path)).verdict == "skipped"
    assert extensions.check(request(tmp_path, None)).verdict == "pass"


@pytest.mark.wheel
def test_of_a_released_library_the_same_is_found_as_nvidias_own_program_lists(tmp_path: Path) -> None:
    data = wheel("0.33.0").read("vllm/_flashkda_C.abi3.so")
    assert data is not None
    (tmp_path / "a.so").write_bytes(data)
    # cuobjdump --list-elf: sm_90a, sm_100 and sm_120, one each.
    found = sorted(codes_of(tmp_path / "a.so"))
    assert [(code.ptx, code.architecture) for code in found] == [(False, 90), (False, 100), (False, 120)]
    assert [code.runs_on((9, 0)) for code in found] == [True, False, False]
    assert [code.runs_on((12, 1)) for code in found] == [False, False, True]
