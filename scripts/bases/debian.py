"""A minimal Debian with Python as an image's first layer, made by debootstrap from the mirror that apt here uses."""

import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from recipe.config import paths
from recipe.errors import Refused
from scripts.bases.archive import Layer, layer, owned_by_root
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
# Links of the base; a package may still have files there, and a folder in a layer would take the link's place.
_LINKED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")


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


def more(architecture: str, package: str) -> Layer:
    """The layer of one more package, with those it depends on, on that of `debian`: unpacked and not configured.

    Errors: Refused where apt has no Debian, or debootstrap fails.
    """
    found, base = source(), debian(architecture)

    def write(archive: tarfile.TarFile) -> None:
        print(f"fetching {package} for the base for {architecture}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=paths.cache()) as folder:
            _debootstrap(Path(folder), architecture, found, ["--download-only"], (*_PACKAGES, package))
            there, seen = _installed(base), set[str]()
            for path in sorted(Path(folder).glob("var/cache/apt/archives/*.deb")):
                if path.name.partition("_")[0] not in there:
                    _unpack(path, archive, seen)

    return layer(f"debian-{architecture}-{package}", f"{base.sha256} {package}", write)


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


def _debootstrap(
    root: Path, architecture: str, found: Source, options: list[str], packages: tuple[str, ...] = _PACKAGES
) -> None:
    _run(
        [
            program("debootstrap", "debootstrap"),
            "--variant=minbase",
            f"--arch={architecture}",
            f"--include={','.join(packages)}",
            *options,
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


def _installed(base: Layer) -> set[str]:
    """The names of the packages in a layer of `debian`."""
    with tarfile.open(base.path) as archive:
        status = archive.extractfile("var/lib/dpkg/status")
        assert status is not None
        return set(re.findall(r"^Package: (.*)$", status.read().decode(), re.MULTILINE))


def _unpack(package: Path, archive: tarfile.TarFile, seen: set[str]) -> None:
    """Put the files of a .deb into a layer; `seen`: the names that are in it already."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as files:
            for entry in _kept(files):
                if entry.name not in seen:
                    seen.add(entry.name)
                    archive.addfile(owned_by_root(entry), files.extractfile(entry) if entry.isreg() else None)
    if process.returncode:
        raise Refused(f"dpkg-deb cannot read {package.name}")


def _kept(files: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The entries under the names that they have in an image."""
    for entry in files:
        entry.name = _placed(entry.name)
        if entry.islnk():
            entry.linkname = _placed(entry.linkname)
        if entry.name != "." and entry.name not in _LINKED and not entry.name.startswith(_WITHOUT):
            yield entry


def _placed(name: str) -> str:
    path = PurePosixPath(name)
    linked = len(path.parts) > 1 and path.parts[0] in _LINKED
    return str("usr" / path if linked else path)
