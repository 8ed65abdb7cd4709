"""The command audit on small wheels: the table, the work list of a release that no patch has seen, the exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from launch.cli.audit import audit
from launch.cli.context import Context
from recipe.catalogue import compile as catalogue
from recipe.catalogue import record, releases
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit, HallmarkError, Mismatch, Refused
from tests.recipe.catalogue.sources import make_wheel, patch

OLD = "def f():\n    x = 1\n    y = 1\n    return x\n"
INIT = {"vllm/__init__.py": b""}


@pytest.fixture
def patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalogue of two patches for 0.33.0, `one` of x and `two` of y."""
    folder = tmp_path / "patches"
    (folder / "baselines").mkdir(parents=True)
    (folder / "series").write_text("one\ntwo\n", encoding="utf-8")
    for id, name in (("one", "x"), ("two", "y")):
        edit = f"{{op: replace, file: vllm/a.py, when: '>=0.33,<0.34', in: f, old: {name} = 1, new: {name} = 2}}"
        patch(folder, id, f"  - {edit}\n")
    (folder / "baselines" / "vllm-0.33.0.json").write_text('{"vllm/a.py": "0"}', encoding="utf-8")
    monkeypatch.setattr(catalogue, "PATCHES", folder)
    return folder


def run(*arguments: str | Path, json: bool = False) -> Result:
    return CliRunner().invoke(audit, [str(word) for word in arguments], obj=Context(CHECKOUT, json))


def wheel(tmp_path: Path, version: str, text: str) -> Path:
    make_wheel(tmp_path / "index", {**INIT, "vllm/a.py": text.encode()}, version)
    return tmp_path / "index" / f"vllm-{version}-py3-none-any.whl"


def refused(done: Result) -> HallmarkError:
    assert isinstance(done.exception, HallmarkError), done.exception
    return done.exception


def test_a_release_that_no_patch_has_seen_gives_the_work_list_of_the_upgrade(patches: Path, tmp_path: Path) -> None:
    text = OLD.replace("x = 1", "x = 2").replace("y = 1", "y = 3")
    done = run("--wheel", wheel(tmp_path, "0.34.0", text), "--check")
    assert done.exit_code == Exit.OK
    assert done.stdout.splitlines() == [
        "     0.34.0",
        "one    =",
        "two    .",
        "",
        "+ pending   = upstreamed   . not applicable   ~ not applicable, would apply   ! drift",
        "",
        "0.34.0:",
        "  one: upstreamed: end its range here, or see its remove-when",
        "  outside its range, would drift: two: vllm/a.py: f: drift:anchor: no statement of f equals 'y = 1'"
        " — nearest: vllm/a.py:3: f: y = 3 (last fitted 0.33.0)",
    ]
    done = run("--wheel", wheel(tmp_path, "0.35.0", OLD))
    assert "  two: outside its range, applies as on 0.33.0: widen `when` after reading" in done.stdout


def test_the_json_has_a_state_for_every_cell_and_the_details_beside(patches: Path, tmp_path: Path) -> None:
    new, newer = wheel(tmp_path, "0.34.0", OLD), wheel(tmp_path, "0.35.0", "def g(): pass\n")
    document = json.loads(run("--wheel", new, "--wheel", newer, json=True).stdout)
    assert document["releases"] == {
        version: {"one": "not-applicable", "two": "not-applicable"} for version in ("0.34.0", "0.35.0")
    }
    widened = document["details"]["0.35.0"]["one"]["widened"]
    assert (widened["like"], widened["state"]) == ("0.33.0", "drift:scope")
    assert document["details"]["0.34.0"]["one"]["widened"]["state"] == "pending"


def test_case_a2_a_missing_anchor_ends_the_check_with_patch_file_and_anchor(patches: Path, tmp_path: Path) -> None:
    text = OLD.replace("x = 1", "x = 7")
    path = wheel(tmp_path, "0.33.0+mine", text)
    assert run("--wheel", path).exit_code == Exit.OK
    error = refused(run("--wheel", path, "--check"))
    assert isinstance(error, Refused)
    assert error.exit == Exit.NOT_DONE
    (line,) = str(error).splitlines()
    assert "one: vllm/a.py: f: drift:anchor: no statement of f equals 'x = 1'" in line


def test_case_a1_every_patch_has_its_state_although_another_one_drifts(patches: Path, tmp_path: Path) -> None:
    path = wheel(tmp_path, "0.33.0+mine", OLD.replace("x = 1", "x = 7"))
    document = json.loads(run("--wheel", path, json=True).stdout)
    assert document["releases"] == {"0.33.0+mine": {"one": "drift:anchor", "two": "pending"}}


def test_a_wheel_that_somebody_made_of_a_listed_release_proves_nothing_upstream(patches: Path, tmp_path: Path) -> None:
    path = wheel(tmp_path, "0.33.0", OLD.replace("x = 1", "x = 2"))
    document = json.loads(run("--wheel", path, json=True).stdout)
    assert document["releases"] == {path.name: {"one": "already-unknown", "two": "pending"}}


def test_what_is_recorded_otherwise_ends_the_check_and_out_writes_it(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = make_wheel(tmp_path / "index", {**INIT, "vllm/a.py": OLD.encode()}, "0.33.0")
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setattr(releases, "known", lambda: (listed,))
    error = refused(run("--check"))
    assert isinstance(error, Mismatch)
    hint = "hallmark audit --out recipe/patches/audit.json writes it again"
    assert f"recipe/patches/audit.json: one on 0.33.0: pending, recorded nothing — {hint}" in str(error)
    assert run("--out", record.path()).exit_code == Exit.OK
    assert run("--check").exit_code == Exit.OK
    assert record.load().states == {"0.33.0": {"one": "pending", "two": "pending"}}


def test_a_release_that_is_not_listed_is_a_mistake(patches: Path) -> None:
    assert "'0.1.0' is not in configs/releases.yaml" in str(refused(run("--vllm", "0.1.0")))
