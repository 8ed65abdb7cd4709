"""Released sources: finds the wheel of a release in the cache, fetches it when missing, reads files out of it."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from recipe.applier.manifest import Manifest
from recipe.applier.patchset import public
from recipe.applier.tree import record_hash, record_rows
from recipe.catalogue import releases
from recipe.config import paths
from recipe.errors import HallmarkError, Unreachable

# What reading an archive raises whose bytes are not what they were.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


class Wheel:
    """The files of one wheel as `Sources` of a plan; `version` without a local part.

    Errors: HallmarkError when the file is no wheel, and while reading when it is damaged.
    """

    manifest: Manifest | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
            self._names = set(self._archive.namelist())
            info = next(name for name in self._names if name.endswith(".dist-info/RECORD"))
            self._rows = record_rows(self._archive.read(info))
        except FileNotFoundError:
            raise HallmarkError("there is no such file", where=str(path), hint="name a .whl file") from None
        except StopIteration:
            raise HallmarkError("is not a wheel", where=str(path), hint="name a .whl file") from None
        except (OSError, *_DAMAGED):
            hint = "name a .whl file, or fetch it again when it is one"
            raise HallmarkError("is not a wheel, or not all of one", where=str(path), hint=hint) from None
        if "vllm/__init__.py" not in self._names:
            raise HallmarkError("is not a wheel of vLLM", where=str(path), hint="name the wheel of a vLLM release")
        self.dist_info = info.partition("/")[0]
        self.distribution, _, self.version = self.dist_info.removesuffix(".dist-info").partition("-")
        try:
            Version(self.version)
        except InvalidVersion:
            message = f"is of no release: {self.version!r} in {self.dist_info} is not a version"
            raise HallmarkError(message, where=str(path), hint="name the wheel of a vLLM release") from None

    def read(self, file: str) -> bytes | None:
        try:
            return self._archive.read(file) if file in self._names else None
        except (OSError, *_DAMAGED):
            raise HallmarkError(
                f"{file} in it is damaged", where=str(self.path), hint="fetch the wheel again"
            ) from None

    def files(self) -> Iterable[str]:
        return self._rows

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        return self._rows.get(file) == (record_hash(data), str(len(data))) and self._is_release

    @cached_property
    def _is_release(self) -> bool:
        """Whether its own list of hashes proves anything: not in a wheel that somebody made of a listed release."""
        name = releases.name(self.distribution.replace("_", "-"), public(self.version))
        pinned = next((release.sha256 for release in releases.known() if release.name == name), None)
        return pinned is None or pinned == digest(self.path)


def digest(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def wheel(version: str, distribution: str = "vllm") -> Wheel:
    """The wheel of one release, from the cache or else from the package index that pip is set up with.

    Errors: Unreachable when the index cannot be reached or has no such release.
    """
    folder = paths.cache() / "wheels"
    found = cached(folder, version, distribution)
    if found is None:
        print(f"fetching {distribution} {version} into {folder}", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        found = fetch(folder, version, distribution)
    return Wheel(found)


def cached(folder: Path, version: str, distribution: str) -> Path | None:
    """The wheel of a release in `folder`, if it is there."""
    name = distribution.replace("-", "_")
    for path in sorted(folder.glob(f"{name}-*.whl")):
        with suppress(InvalidWheelFilename):
            if parse_wheel_filename(path.name)[1] == Version(version):
                return path
    return None


def fetch(folder: Path, version: str, distribution: str, digest: str | None = None) -> Path:
    """Fetch a wheel into `folder` with pip, the one with sha256 `digest` when it is given.

    Errors: Unreachable with what pip said.
    """
    # The wheel is only read, never installed: the platform is fixed so that any machine fetches the same file.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_34_x86_64", "--platform=manylinux1_x86_64"]
    command += ["--python-version=3.12", "--dest", str(folder)]
    wanted = f"{distribution}=={version}"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pinned:
        if digest is not None:
            pinned.write(f"{wanted} --hash=sha256:{digest}\n")
            pinned.flush()
        command += [wanted] if digest is None else ["--require-hashes", "--requirement", pinned.name]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        # Of an error of pip's own the last line says what it was.
        told = [line for line in lines if line.startswith("ERROR") and line != "ERROR: Exception:"] or lines[-1:]
        raise Unreachable(
            f"pip cannot fetch {distribution} {version}: {told[-1] if told else 'it says nothing'}",
            hint="check the version and pip's index, or name a file with --wheel",
        )
    found = cached(folder, version, distribution)
    if found is None:
        raise Unreachable(f"no wheel of {distribution} {version} was fetched", where=str(folder))
    return found
