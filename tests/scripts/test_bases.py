"""Base images are put together here, so that every engine has the same one."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from scripts.bases import archive


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path))
    return tmp_path


def a_layer(key: str, text: bytes = b"x") -> archive.Layer:
    return archive.layer("some", key, lambda tar: archive.add(tar, "etc/file", text))


def test_a_layer_is_made_once(cache: Path) -> None:
    first = a_layer("one")
    assert archive.layer("some", "one", lambda tar: pytest.fail("made again")) == first


def test_a_layer_of_another_key_takes_the_place_of_the_old_one(cache: Path) -> None:
    old, new = a_layer("one"), a_layer("two", b"y")
    assert not old.path.exists() and new.path.exists() and old.sha256 != new.sha256


def test_a_layer_that_could_not_be_made_leaves_nothing_behind(cache: Path) -> None:
    def fail(tar: tarfile.TarFile) -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        archive.layer("some", "one", fail)
    assert list((cache / "bases").iterdir()) == []


def test_the_archive_names_the_configuration_by_its_digest_and_holds_the_layers(cache: Path) -> None:
    base = archive.Base("localhost/some:1", "arm64", (a_layer("one"),))
    out = io.BytesIO()
    archive.write(base, out)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]
    manifest = json.loads(files["manifest.json"])[0]
    assert manifest["RepoTags"] == ["localhost/some:1"]
    assert f"sha256:{manifest['Config'].removesuffix('.json')}" == base.digest
    assert json.loads(files[manifest["Config"]])["rootfs"]["diff_ids"] == [f"sha256:{base.layers[0].sha256}"]
    assert files[manifest["Layers"][0]] == base.layers[0].path.read_bytes()
