"""Base images are put together here, so that every engine has the same one."""

import io
import json
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from recipe.errors import Refused
from scripts.bases import archive, debian


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


# Has an image with one layer. It writes down which layers come, and needs them all where `whole` lies beside it.
_ENGINE = """#!{python}
import json, pathlib, sys, tarfile
folder = pathlib.Path(sys.argv[0]).parent
words = sys.argv[1:]
if words[:2] == ["image", "ls"]:
    print("sha256:one")
elif words[:2] == ["image", "inspect"] and words[-1] == "sha256:one":
    print(json.dumps([{layer!r}]))
elif words[0] == "load":
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as tar:
        names = [entry.name for entry in tar if entry.name.endswith(".tar")]
    with (folder / "loads").open("a") as file:
        file.write(json.dumps(names) + chr(10))
    if (folder / "whole").exists() and len(names) < 2:
        sys.exit("no such content")
"""


@pytest.mark.parametrize("whole", [False, True], ids=["as it is", "for an engine that wants all of it"])
def test_an_engine_gets_the_layers_that_it_lacks(cache: Path, whole: bool) -> None:
    low = archive.layer("low", "key", lambda tar: archive.add(tar, "etc/low", b"x"))
    base = archive.Base("localhost/some:1", "amd64", (low, a_layer("one")))
    docker = cache / "docker"
    docker.write_text(_ENGINE.format(python=sys.executable, layer=f"sha256:{low.sha256}"))
    docker.chmod(stat.S_IRWXU)
    if whole:
        (cache / "whole").touch()
    archive.load(base, str(docker))
    first, *more = [json.loads(line) for line in (cache / "loads").read_text().splitlines()]
    names = [f"{layer.sha256}.tar" for layer in base.layers]
    assert (first, more) == (names[1:], [names] if whole else [])


def test_an_engine_that_takes_no_image_is_told_with_its_words(cache: Path) -> None:
    docker = cache / "docker"
    docker.write_text('#!/bin/sh\ntest "$1" = image && exit 1\ncat >/dev/null; echo no space left; exit 1\n')
    docker.chmod(stat.S_IRWXU)
    with pytest.raises(Refused, match="docker load localhost/some:1: no space left"):
        archive.load(archive.Base("localhost/some:1", "amd64", (a_layer("one"),)), str(docker))


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is a program of Debian")
def test_a_package_above_debians_base_is_unpacked_without_what_the_base_has(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in /lib keeps the link of that name, and the base's own packages do not come twice."""

    def base(tar: tarfile.TarFile) -> None:
        archive.add(tar, "var/lib/dpkg/status", b"Package: there\nVersion: 1\n\nPackage: other\n")

    def fetch(root: Path, *_: object) -> None:
        debs = root / "var/cache/apt/archives"
        debs.mkdir(parents=True)
        for name, file in (("there", "usr/bin/there"), ("more", "lib/more.so"), ("else", "usr/share/doc/else")):
            (debs / f"{name}_1_amd64.deb").write_bytes(package(cache / name, name, file))

    found = archive.layer("debian-amd64", "key", base)
    monkeypatch.setattr(debian, "debian", lambda _: found)
    monkeypatch.setattr(debian, "source", lambda: debian.Source("mirror", "name"))
    monkeypatch.setattr(debian, "_debootstrap", fetch)
    with tarfile.open(debian.more("amd64", "more").path) as tar:
        assert [entry.name for entry in tar if entry.isfile()] == ["usr/lib/more.so"]
        assert not {"lib", "."} & set(tar.getnames())


def package(folder: Path, name: str, file: str) -> bytes:
    """A Debian package with one file."""
    (folder / "DEBIAN").mkdir(parents=True)
    (folder / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: m\nDescription: d\n"
    )
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_text("x")
    out = folder.with_suffix(".deb")
    subprocess.run(["dpkg-deb", "--build", str(folder), str(out)], check=True, capture_output=True)
    return out.read_bytes()
