"""A minimal Debian with Python as an image's first layer, made by debootstrap from the mirror that apt here uses."""

import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recipe.config import paths
from recipe.errors import Refused
from scripts.bases.archive import Layer, layer
from scripts.engines import emulation
from scripts.engines.packages import program

_PACKAGES = ("libgomp1", "libnuma1", "python3")
# Nothing at run time reads these.
_WITHOUT = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "dev",
)
# BuildKit mounts these over whatever is there, and would leave mount points in the layer where they are missing.
_FILES = {"etc/hosts": "127.0.0.1 localhost\n", "etc/resolv.conf": "", "etc/hostname": "localhost\n"}
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Source:
    """Where apt fetches Debian from: the mirror's address and the release's codename."""

    mirror: str
    codename: str


def debian(architecture: str) -> Layer:
    """The layer for `amd64` or `arm64`; takes a minute the first time.

    Errors: Refused where apt has no Debian, or debootstrap fails.
    """
    found = source()
    own = _MACHINES.get(platform.machine()) == architecture

    def write(archive: tarfile.TarFile) -> None:
        print(f"making a Debian base for {architecture}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=paths.cache()) as folder:
            root = Path(folder) / "root"
            if own:
                _debootstrap(root, architecture, found, [])
            else:
                with emulation.arm64():
                    _debootstrap(root, architecture, found, ["--foreign"])
                    _run(["chroot", str(root), "/debootstrap/debootstrap", "--second-stage"])
            _pack(root, archive)

    return layer(f"debian-{architecture}", f"{found.codename} {_PACKAGES} {_WITHOUT} {_FILES}", write)


def source() -> Source:
    """What apt's own lists say. Errors: Refused where apt is missing or is not Debian's."""
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)", "Created-By: Packages"]
    try:
        listed = subprocess.run(command, check=False, capture_output=True, text=True).stdout.splitlines()
    except FileNotFoundError:
        listed = []
    wanted = platform.freedesktop_os_release().get("VERSION_CODENAME")
    for line in listed:
        origin, codename, mirror = line.split(" ", 2)
        if origin == "Debian" and codename == wanted:
            return Source(mirror, codename)
    raise Refused("base images are made from Debian, and apt has no Debian here", hint="run `apt-get update` on Debian")


def _debootstrap(root: Path, architecture: str, found: Source, more: list[str]) -> None:
    _run(
        [
            program("debootstrap", "debootstrap"),
            "--variant=minbase",
            f"--arch={architecture}",
            f"--include={','.join(_PACKAGES)}",
            *more,
            found.codename,
            str(root),
            found.mirror,
        ]
    )


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        told = (done.stdout + done.stderr).strip().splitlines()
        raise Refused(f"{Path(command[0]).name} failed: {' | '.join(told[-3:])}")


def _pack(root: Path, archive: tarfile.TarFile) -> None:
    for folder in _WITHOUT:
        path = root / folder
        shutil.rmtree(path)
        path.mkdir()
    for name, text in _FILES.items():
        (root / name).unlink(missing_ok=True)
        (root / name).write_text(text)

    def keep(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        # Numbers count in another system, the names of this one do not.
        entry.uname = entry.gname = ""
        return entry

    for path in sorted(root.iterdir()):
        archive.add(path, path.name, filter=keep)
