"""Sources of listed releases: fetched with pip from a folder, compared with the pin, kept without the wheel."""

import random
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from packaging.version import Version

from recipe.catalogue import released, releases, store
from recipe.errors import Busy, ConfigError, HallmarkError, Mismatch, Refused, Unreachable
from tests.recipe.catalogue.sources import make_wheel

FILES = {"vllm/__init__.py": b"x = 1\n", "vllm/a.py": b"y = 2\n", "vllm/table.json": b"{}\n"}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that pip fetches from; the cache is empty."""
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


def cached(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "wheels").iterdir())


def test_a_release_is_fetched_once_and_its_wheel_is_not_kept(index: Path, tmp_path: Path) -> None:
    release = make_wheel(index, FILES)
    assert released.sources(release).read("vllm/a.py") == b"y = 2\n"
    assert cached(tmp_path) == []
    (wheel,) = index.iterdir()
    wheel.unlink()
    again = released.sources(release)
    assert again.read("vllm/a.py") == b"y = 2\n"
    assert again.read("vllm/b.py") is None
    assert set(FILES) < set(again.files())
    assert again.pristine_by_release("vllm/a.py", b"y = 2\n")
    assert not again.pristine_by_release("vllm/a.py", b"y = 3\n")


def test_a_wheel_is_kept_when_that_was_asked_for(index: Path, tmp_path: Path) -> None:
    release = make_wheel(index, FILES)
    released.sources(release, keep_wheel=True)
    assert cached(tmp_path) == ["vllm-9.9.0-py3-none-any.whl"]


def test_a_file_that_is_not_kept_unasked_is_fetched_when_a_patch_touches_it(index: Path) -> None:
    release = make_wheel(index, FILES)
    assert released.sources(release).read("vllm/table.json") == b"{}\n"
    for wheel in index.iterdir():
        wheel.unlink()
    assert released.sources(release).read("vllm/table.json") == b"{}\n"


def test_contents_that_releases_share_are_kept_once(index: Path, tmp_path: Path) -> None:
    big = {"vllm/big.py": random.Random(1).randbytes(1_000_000)}
    released.sources(make_wheel(index, {**FILES, **big}))
    before = (tmp_path / "cache/sources.sqlite").stat().st_size
    assert before > 1_000_000
    found = released.sources(make_wheel(index, {**FILES, **big, "vllm/new.py": b"z = 3\n"}, "9.9.1"))
    assert found.read("vllm/new.py") == b"z = 3\n"
    assert (tmp_path / "cache/sources.sqlite").stat().st_size < before + 100_000


def test_a_wheel_in_the_cache_that_is_not_the_pinned_one_is_refused_and_stays(index: Path, tmp_path: Path) -> None:
    release = make_wheel(index, FILES)
    (tmp_path / "cache").mkdir()
    make_wheel(tmp_path / "cache" / "wheels", {**FILES, "x.py": b""})
    with pytest.raises(Mismatch, match=r"is not the released wheel of 9\.9\.0: sha256 "):
        released.sources(release)
    assert cached(tmp_path) == ["vllm-9.9.0-py3-none-any.whl"]


def test_an_index_that_has_another_wheel_of_this_name_is_refused(index: Path, tmp_path: Path) -> None:
    release = make_wheel(index, FILES)
    make_wheel(index, {**FILES, "vllm/a.py": b"y = 3\n"})
    with pytest.raises(Unreachable, match=r"pip cannot fetch vllm 9\.9\.0"):
        released.sources(release)
    assert cached(tmp_path) == []


def test_a_damaged_cache_of_sources_says_which_file_to_delete(index: Path, tmp_path: Path) -> None:
    release = make_wheel(index, FILES)
    released.sources(release)
    (tmp_path / "cache/sources.sqlite").write_bytes(b"not a database at all, and longer than its head" * 99)
    with pytest.raises(Mismatch, match=r"sources\.sqlite: the cache of sources .* — delete this file, then repeat"):
        released.sources(release).read("vllm/a.py")


def test_a_cache_that_cannot_be_written_is_not_to_be_deleted(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = make_wheel(index, FILES)
    database = tmp_path / "cache/sources.sqlite"
    database.mkdir(parents=True)
    with pytest.raises(Refused, match=r"sources\.sqlite: .* unable to open .* — make room or give the right to write"):
        released.sources(release)
    database.rmdir()
    released.sources(release)
    monkeypatch.setattr(store, "_PATIENCE_S", 0.0)
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("begin exclusive")
        with pytest.raises(Busy, match=r"sources\.sqlite: .* database is locked — try again"):
            released.sources(release)


def test_what_pip_itself_could_not_do_is_told(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = make_wheel(index, FILES)
    said = "ERROR: Exception:\nTraceback (most recent call last):\nOSError: [Errno 28] No space left on device\n"
    failed = subprocess.CompletedProcess([], 2, "", said)
    monkeypatch.setattr(subprocess, "run", lambda *command, **options: failed)
    with pytest.raises(Unreachable, match=r"pip cannot fetch vllm 9\.9\.0: OSError: .* No space left on device"):
        released.sources(release)


def test_the_shipped_list_has_every_release_once_and_the_new_behind_the_old() -> None:
    names = [release.name for release in releases.known()]
    assert names[0] == "0.22.0"
    assert len(set(names)) == len(names)
    versions = [Version(release.version) for release in releases.known() if release.distribution == "vllm"]
    assert versions == sorted(versions)
    with pytest.raises(HallmarkError, match=r"'0\.1\.0' is not in configs/releases\.yaml — known: 0\.22\.0, "):
        releases.find("0.1.0")


def test_a_release_that_is_listed_wrongly_is_refused_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "releases.yaml"
    path.write_text('source: here\nreleases:\n  - {version: new, sha256: "12"}\n', encoding="utf-8")
    monkeypatch.setattr(releases, "FILE", path)
    releases.known.cache_clear()
    try:
        with pytest.raises(ConfigError) as refused:
            releases.known()
    finally:
        releases.known.cache_clear()
    told = [str(problem).rpartition("releases.yaml:")[2] for problem in refused.value.problems]
    assert told == [
        "3: releases[0].sha256: '12' is not a sha256 — `pip hash FILE` tells it",
        "3: releases[0].version: 'new' is not a version — write a release like \"0.33.0\", or {fork: NAME}",
    ]
