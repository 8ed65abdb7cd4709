"""Versions, patch states, headers, compiler and platform, on trees that are made here."""

import json
import platform
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from recipe.image.inside import patches, tools, versions
from recipe.image.inside.request import Request
from recipe.image.inside.result import Result


def request(folder: Path) -> Request:
    site, base = folder / "site", folder / "base"
    site.mkdir()
    base.mkdir()
    return Request(site, base, "aarch64", "cuda", (12, 1), 1, "m", [], {}, "it compiles", True, {}, "a" * 64)


@pytest.fixture
def asked(tmp_path: Path) -> Request:
    return request(tmp_path)


def installed(site: Path, name: str, version: str) -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def outcome(result: Result) -> tuple[str, list[str]]:
    return result.verdict, result.problems


def test_b8_a_torch_that_extras_moved_fails_with_both_versions(asked: Request) -> None:
    installed(asked.base, "torch", "2.14.0")
    installed(asked.base, "flashinfer_python", "0.7.1")
    installed(asked.site, "torch", "2.15.0")
    installed(asked.site, "b12x", "1.0")
    assert outcome(versions.check(asked)) == (
        "fail",
        [
            "flashinfer-python: gone, the base has 0.7.1 — pin the extra packages to ones that leave it alone",
            "torch: 2.15.0, the base has 2.14.0 — pin the extra packages to ones that leave it alone",
        ],
    )


def test_b8_a_torch_for_another_cuda_fails(asked: Request) -> None:
    for site, cuda in ((asked.base, "13.0"), (asked.site, "12.9")):
        installed(site, "torch", "2.14.0")
        (site / "torch").mkdir()
        (site / "torch/version.py").write_text(f"__version__ = '2.14.0'\ncuda: Optional[str] = '{cuda}'\n")
    assert versions.check(asked).problems[0].startswith("torch is built for CUDA 12.9, in the base for 13.0")


def test_a_base_of_another_release_fails_against_its_pins(asked: Request) -> None:
    installed(asked.base, "torch", "2.13.0+cpu")
    installed(asked.site, "torch", "2.13.0+cpu")
    assert versions.check(replace(asked, pins={"torch": "2.13.0"})).verdict == "pass"
    assert versions.check(replace(asked, pins={"torch": "2.14.0"})).problems == [
        "torch: 2.13.0+cpu, vLLM needs 2.14.0 — use the base image of this release"
    ]


@pytest.mark.parametrize(
    ("patchset", "state", "verdict"),
    [("a", "applied", "pass"), ("a", "drift:anchor", "fail"), ("b", "applied", "fail")],
)
def test_the_manifest_must_record_the_patch_set_that_was_asked_for(
    asked: Request, patchset: str, state: str, verdict: str
) -> None:
    folder = asked.site / "vllm-0.33.0.dist-info"
    folder.mkdir()
    (folder / "PATCHES.json").write_text(json.dumps({"patchset": patchset * 64, "patches": {"one": {"state": state}}}))
    assert patches.check(asked).verdict == verdict


def test_a_tree_without_a_manifest_is_not_patched(asked: Request) -> None:
    assert patches.check(asked).verdict == "fail"


def test_deepgemm_without_headers_for_the_hardware_fails_and_without_any_is_skipped(asked: Request) -> None:
    assert tools.headers(asked).verdict == "skipped"
    folder = asked.site / "vllm/third_party/deep_gemm/include/deep_gemm/impls"
    folder.mkdir(parents=True)
    (folder / "sm90_bf16_gemm.cuh").touch()
    assert tools.headers(asked).verdict == "fail"
    (folder / "sm120_bf16_gemm.cuh").touch()
    assert tools.headers(asked).verdict == "pass"
    assert tools.headers(replace(asked, deepgemm=False)).verdict == "pass"


def test_a_missing_compiler_fails_only_where_the_profile_compiles(
    asked: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert outcome(tools.compiler(asked))[0] == "skipped"
    monkeypatch.setattr(tools, "missing", lambda: None)
    assert outcome(tools.compiler(asked)) == (
        "fail",
        ["there is no g++ or c++ or clang++, and it compiles — use a base image with g++"],
    )
    assert tools.compiler(replace(asked, compiles=None)).verdict == "pass"
    (tmp_path / "g++").touch(stat.S_IRWXU)
    assert tools.compiler(asked).verdict == "pass"


def test_b8_another_processor_than_the_hardwares_fails(asked: Request) -> None:
    assert tools.machine(replace(asked, machine=platform.machine())).verdict == "pass"
    assert tools.machine(replace(asked, machine="other")).verdict == "fail"
