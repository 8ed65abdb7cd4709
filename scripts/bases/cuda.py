"""What lets the compiled code of a release for NVIDIA GPUs load beside torch's CPU build, and answer what needs no GPU.

CUDA's runtime is NVIDIA's own. The driver and torch's CUDA libraries are stand-ins, in which every call fails.
"""

import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

from recipe.config import paths
from recipe.errors import Refused
from scripts.bases.archive import Layer, add, add_folders, layer
from scripts.engines.packages import program

_HERE = Path(__file__).resolve().parent
_LIST, _SOURCE = _HERE / "beside.txt", _HERE / "absent.c"
_RUNTIME = "nvidia/cu13/lib/libcudart.so.13"
# Where the loader looks; and where images that CUDA is compiled in have what stands for the driver.
_LIBRARIES, _STUBS = "usr/lib/x86_64-linux-gnu", "usr/local/cuda-13.0/lib64/stubs"


def runtime(site: str, python: Path) -> Layer:
    """The layer, with packages for the interpreter `python` in the folder `site` of the image.

    Errors: Refused when pip or the compiler fails.
    """

    def write(archive: tarfile.TarFile) -> None:
        with tempfile.TemporaryDirectory(dir=paths.cache()) as folder:
            files = {f"{site}/{name}": data for name, data in _packages(python, Path(folder) / "packages").items()}
            files[f"{_STUBS}/libcuda.so"] = _compiled(Path(folder), "libcuda.so.1", "-DDRIVER")
            files[f"{_LIBRARIES}/libtorch_cuda.so"] = _compiled(Path(folder), "libtorch_cuda.so")
        add_folders(archive, files)
        for name, data in sorted(files.items()):
            add(archive, name, data)
        # torch's CUDA build loads it from there itself.
        link = tarfile.TarInfo(f"{_LIBRARIES}/{Path(_RUNTIME).name}")
        link.type, link.linkname = tarfile.SYMTYPE, f"/{site}/{_RUNTIME}"
        archive.addfile(link)

    key = hashlib.sha256(_LIST.read_bytes() + _SOURCE.read_bytes()).hexdigest()
    return layer("cuda-runtime", f"{key} {site} {_STUBS}", write)


def _packages(python: Path, folder: Path) -> dict[str, bytes]:
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--require-hashes", "-r", str(_LIST), "--target", str(folder)]
    _run(command)
    paths = [path for path in folder.rglob("*") if path.is_file() and "/include/" not in str(path)]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths if path.suffix != ".a"}


def _compiled(folder: Path, name: str, *options: str) -> bytes:
    compiler = program("gcc", "gcc")
    _run(
        [
            compiler,
            "-shared",
            "-fPIC",
            "-nostdlib",
            f"-Wl,-soname,{name}",
            *options,
            "-o",
            str(folder / name),
            str(_SOURCE),
        ]
    )
    return (folder / name).read_bytes()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{' '.join(command[:3])} failed: {done.stderr.strip()[-500:]}")
