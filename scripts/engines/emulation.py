"""Lets this machine run programs of arm64, through qemu-user-static and binfmt_misc, for as long as it is needed."""

import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recipe.errors import Refused
from scripts.engines.packages import program

_BINFMT = Path("/proc/sys/fs/binfmt_misc")
_RULE = Path("/usr/lib/binfmt.d/qemu-aarch64.conf")


@contextmanager
def arm64() -> Iterator[None]:
    """Register the emulator where it is not registered yet, and take back then what was changed.

    Errors: Refused when the kernel or the rights do not allow it.
    """
    registered = _BINFMT / "qemu-aarch64"
    if platform.machine() == "aarch64" or registered.exists():
        yield
        return
    program("qemu-aarch64-static", "qemu-user-static")
    mounted = not (_BINFMT / "register").exists()
    if mounted:
        done = subprocess.run(
            ["mount", "-t", "binfmt_misc", "binfmt_misc", str(_BINFMT)], check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise Refused(f"binfmt_misc cannot be mounted: {done.stderr.strip()}", hint="run this as root")
    try:
        # The rule says that the kernel opens the emulator now, so that it is there inside containers too (flag F).
        (_BINFMT / "register").write_bytes(_RULE.read_bytes().strip())
        yield
    finally:
        if registered.exists():
            registered.write_text("-1")
        if mounted:
            subprocess.run(["umount", str(_BINFMT)], check=False, capture_output=True)
