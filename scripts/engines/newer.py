"""Programs that only a newer Debian than this machine's has, from the mirror that apt here uses: unpacked into the
cache, not installed.

apt checks the release's signature with Debian's own keyring, and each package's hash; it is given lists and folders of
its own, so that the system's are neither read nor changed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recipe.config import paths
from recipe.errors import Refused
from scripts.bases.debian import source

_SUITE = "trixie"
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True)
class Packed:
    """A package of that Debian. `file`: where the program is in it."""

    package: str
    file: str


BUILDX = Packed("docker-buildx", "usr/libexec/docker/cli-plugins/docker-buildx")
COSIGN = Packed("cosign", "usr/bin/cosign")


def newer(wanted: Packed) -> Path:
    """The program, from the cache or else fetched. Errors: Refused where apt has no Debian, or cannot fetch it."""
    folder = paths.cache() / _SUITE / wanted.package
    found = folder / wanted.file
    if not found.is_file():
        print(f"fetching {wanted.package} of Debian {_SUITE}", file=sys.stderr, flush=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            fetched = Path(name)
            _fetch(wanted.package, fetched)
            [archive] = fetched.glob("*.deb")
            _run(wanted.package, ["dpkg-deb", "--extract", str(archive), str(fetched / "tree")])
            # Whole or not at all; who fetches it at the same time has the same.
            shutil.rmtree(folder, ignore_errors=True)
            (fetched / "tree").rename(folder)
    if not found.is_file():
        raise Refused(f"the package {wanted.package} of Debian {_SUITE} has no {wanted.file}", where=str(folder))
    return found


def _fetch(package: str, folder: Path) -> None:
    """Put the package's file into `folder`."""
    lists = folder / "sources.list"
    lists.write_text(f"deb [signed-by={_KEYS}] {source().mirror} {_SUITE} main\n")
    for name in ("lists/partial", "cache"):
        (folder / name).mkdir(parents=True)
    options = {
        "Dir::Etc::sourcelist": lists,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        # apt's own user may not write here.
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        # Else what cannot be fetched is a warning.
        "APT::Update::Error-Mode": "any",
    }
    words = ["apt-get", "-qq", *(f"--option={key}={value}" for key, value in options.items())]
    _run(package, [*words, "update"])
    _run(package, [*words, "download", package], folder)


def _run(package: str, command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=folder, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode:
        told = (done.stderr.strip().splitlines() or ["it does not say why"])[0]
        raise Refused(
            f"{package} cannot be had from Debian {_SUITE}: {told}",
            where=command[0],
            hint=f"apt's mirror must have {_SUITE}, and the package debian-archive-keyring its keys",
        )
