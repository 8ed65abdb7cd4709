"""Other ways to carry a change to a new release: GNU patch, git, first-match replacement.

Each takes a site and the new release's file and gives that file with the change in it, or None where it refuses.
"""

import difflib
import subprocess
from collections.abc import Callable
from pathlib import Path

from scripts.figures.sites import Site

Way = Callable[[Site, bytes], bytes | None]
_FILE = "file.py"


def replace_first(site: Site, data: bytes) -> bytes | None:
    """The call's own text, replaced where it is found first."""
    before, after = site.texts
    return data.replace(before, after, 1) if before in data else None


class Tools:
    """GNU patch and git, at work in an empty folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._git = ["git", "-c", "core.autocrlf=false", "-C", str(folder)]
        self._run([*self._git, "init", "--quiet"], b"")

    def gnu_patch(self, *options: str) -> Way:
        """`patch -N` with these options: without -N it would take back what it thinks is there already."""
        command = ["patch", "-N", "--silent", "--no-backup-if-mismatch", "--reject-file=-", *options, str(self._path)]

        def way(site: Site, data: bytes) -> bytes | None:
            self._path.write_bytes(data)
            return self._result(command, _diff(site, "2" * 40))

        return way

    def git_apply(self) -> Way:
        """`git apply`: all context must be there, at any line."""

        def way(site: Site, data: bytes) -> bytes | None:
            self._path.write_bytes(data)
            return self._result([*self._git, "apply", "--whitespace=nowarn"], _diff(site, "2" * 40))

        return way

    def git_merge(self) -> Way:
        """`git apply --3way`, which has the old release's file to merge from; a conflict is a refusal."""

        def way(site: Site, data: bytes) -> bytes | None:
            self._path.write_bytes(data)
            blob = self._run([*self._git, "hash-object", "-w", "--stdin"], site.old).stdout.decode().strip()
            self._run([*self._git, "add", "--force", _FILE], b"")
            command = [*self._git, "apply", "--3way", "--whitespace=nowarn"]
            try:
                return self._result(command, _diff(site, blob))
            finally:
                self._run([*self._git, "rm", "--quiet", "--cached", "--force", _FILE], b"")

        return way

    def _result(self, command: list[str], diff: bytes) -> bytes | None:
        done = subprocess.run(command, input=diff, capture_output=True, check=False)
        return self._path.read_bytes() if done.returncode == 0 else None

    def _run(self, command: list[str], data: bytes) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(command, input=data, capture_output=True, check=True)


def _diff(site: Site, blob: str) -> bytes:
    """The change as git would write it, three lines of context around it."""
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        site.old.splitlines(keepends=True),
        site.changed.splitlines(keepends=True),
        f"a/{_FILE}".encode(),
        f"b/{_FILE}".encode(),
    )
    body = b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)
    return f"diff --git a/{_FILE} b/{_FILE}\nindex {blob}..{'1' * 40} 100644\n".encode() + body
