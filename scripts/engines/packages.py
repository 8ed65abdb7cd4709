"""Installs Debian packages that a script needs, where a program of theirs is missing."""

import os
import shutil
import subprocess
import sys

from recipe.errors import Refused

# Debian keeps programs for the administrator out of a user's PATH.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def program(name: str, package: str) -> str:
    """The path of a program, whose package is installed first when it is missing.

    Errors: Refused when it cannot be installed.
    """
    found = shutil.which(name, path=_PATH)
    if found is None:
        _install(package)
        found = shutil.which(name, path=_PATH)
    if found is None:
        raise Refused(f"there is no program {name}", hint=f"install the package {package}")
    return found


def _install(package: str) -> None:
    if shutil.which("apt-get") is None or os.getuid() != 0:
        raise Refused(f"the package {package} is missing, and only root can install it", hint=f"install {package}")
    print(f"installing {package}", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
        done = subprocess.run(["apt-get", *arguments], check=False, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise Refused(f"apt-get {arguments[0]} failed: {done.stderr.strip()[-300:]}", hint=f"install {package}")
