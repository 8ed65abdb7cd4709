"""Writes the build context of an image: a folder with what the Dockerfile uses, kept so a build can be repeated."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from recipe.applier.patchset import PatchSet
from recipe.config import paths
from recipe.errors import HallmarkError
from recipe.image import packages, pyz
from recipe.image.plan import ABOUT, CHECKED, DOCKERFILE, EXTRAS, Build

_BUILT = "built.json"
_FIND_PYTHON, _INSTALL_EXTRAS = (
    paths.CHECKOUT / "dockerfiles" / name for name in ("find-python.sh", "install-extras.sh")
)


def write(build: Build, patchset: PatchSet) -> Path:
    """Write the context below the cache folder; the same build always has the same one. Returns the folder.

    Errors: HallmarkError when it cannot be written; those of `packages.held`.
    """
    files = {
        pyz.NAME: pyz.pack(),
        "patchset.json": patchset.canonical(),
        pyz.CHECKS: pyz.pack_checks(),
        "request.json": build.request,
        "find-python.sh": _FIND_PYTHON.read_bytes(),
        DOCKERFILE: build.dockerfile.encode(),
    }
    if build.extras:
        files["install-extras.sh"] = _INSTALL_EXTRAS.read_bytes()
        files[f"{EXTRAS}/requirements.txt"] = packages.requirements(build.extras)
    # Of its content, so that builds of one profile on two bases at the same time do not share it.
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()[:8]
    folder = paths.cache() / "builds" / f"{build.profile}-{patchset.vllm}-{patchset.sha256[:8]}-{digest}"
    _write(folder, files)
    if build.extras:
        installer = next(it.file for it in build.extras if it.name == packages.INSTALLER)
        wheels = packages.held(build.extras)
        _link(folder, {f"{EXTRAS}/{'pip.whl' if it == installer else it}": path for it, path in wheels.items()})
    return folder


def write_about(build: Build) -> Path:
    """Write the context of a look at a base; returns the folder. Errors: HallmarkError when it cannot be written."""
    files = {
        pyz.ABOUT: pyz.pack_about(),
        "find-python.sh": _FIND_PYTHON.read_bytes(),
        ABOUT: build.dockerfile.encode(),
    }
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()[:8]
    folder = paths.cache() / "builds" / f"about-{build.profile}-{digest}"
    _write(folder, files)
    return folder


def write_checked(build: Build, folder: Path) -> None:
    """Write the Dockerfile of a build whose checks have spoken, beside the first one."""
    _write(folder, {CHECKED: build.dockerfile.encode()})


def write_built(folder: Path, tag: str, digest: str) -> None:
    """Note which image came of this context, so that the next build of the same finds out that it has nothing to do."""
    # Of each engine another one: its history has the time of the build.
    _write(folder, {_BUILT: json.dumps({tag: sorted({*built(folder, tag), digest})}).encode()})


def built(folder: Path, tag: str) -> set[str]:
    """The config digests of the images that came of this context under this tag."""
    try:
        digests = json.loads((folder / _BUILT).read_bytes()).get(tag)
    except (OSError, ValueError, AttributeError):
        return set()
    return set(map(str, digests)) if isinstance(digests, list) else set()


def _write(folder: Path, files: dict[str, bytes]) -> None:
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            # What is there may be in use by the same build.
            if not path.is_file() or path.read_bytes() != data:
                path.write_bytes(data)
            # BuildKit's cache looks at the mode too, so it must not depend on the umask.
            path.chmod(0o644)


def _link(folder: Path, files: Mapping[str, Path]) -> None:
    """Put large files into the context, without a second copy of them where the file system can do that."""
    with _told(folder):
        for name, path in files.items():
            target = folder / name
            if not target.exists():
                # The same build may be doing this now, and what it has half copied would be taken for the wheel.
                fresh = folder / f".{os.getpid()}.new"
                try:
                    _linked(path, fresh)
                    fresh.replace(target)
                finally:
                    # It is still there when the target has become the same file meanwhile.
                    fresh.unlink(missing_ok=True)


def _linked(path: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HallmarkError(
            f"cannot be written: {error.strerror}", where=str(folder), hint="set HALLMARK_CACHE elsewhere"
        ) from None
