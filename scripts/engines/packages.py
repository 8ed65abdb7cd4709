"""Finds programs of Debian packages; in CI a missing package is installed."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from recipe.errors import Refused

# Debian keeps programs for the administrator out of a user's PATH.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
_TURN = Path("/run/lock/hallmark-packages")


def program(name: str, package: str) -> str:
    """The path of a program, whose package is installed first when it is missing and this is CI.

    Errors: Refused when it cannot be installed.
    """
    found = shutil.which(name, path=_PATH)
    if found is None:
        _may_install(package)
        # apt-get does not wait for another one.
        with _TURN.open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            if shutil.which(name, path=_PATH) is None:
                _install(package)
        found = shutil.which(name, path=_PATH)
    if found is None:
        raise Refused(f"there is no program {name}", hint=f"install the package {package}")
    return found


def _may_install(package: str) -> None:
    # On a person's machine packages are theirs to install.
    if "CI" not in os.environ or shutil.which("apt-get") is None or os.getuid() != 0:
        raise Refused(f"the package {package} is missing", hint=f"apt-get install {package}, as root")


def _install(package: str) -> None:
    print(f"installing {package}", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
        done = subprocess.run(["apt-get", *arguments], check=False, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise Refused(f"apt-get {arguments[0]} failed: {done.stderr.strip()[-300:]}", hint=f"install {package}")
