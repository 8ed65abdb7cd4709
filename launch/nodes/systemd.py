"""systemd of this machine: the system's for root, else the user's own."""

import os
import pwd
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recipe.errors import Refused

_RUNS = Path("/run/systemd/system")


@dataclass(frozen=True)
class Manager:
    """`folder`: where its units are; `user`: who a unit's processes are to run as, None where they can only be ours."""

    folder: Path
    own: bool
    user: str | None

    @property
    def target(self) -> str:
        return "default.target" if self.own else "multi-user.target"

    def text(self, name: str) -> str | None:
        """The unit as it is there; None when there is none."""
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.is_file() else None

    def install(self, name: str, text: str) -> bool:
        """Write the unit, enable it and start it; False when exactly this was there.

        Errors: Refused with systemd's own words; the unit that was there before, or none, is there again.
        """
        self._needed()
        before = self.text(name)
        if before == text:
            self._control("enable", "--now", name)
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._put(name, text)
            self._control("daemon-reload")
            self._control("enable", name)
            self._control("restart", name)
        except BaseException:
            self._put_back(name, before)
            raise
        return True

    def _put(self, name: str, text: str) -> None:
        fresh = self.folder / f".{name}.{os.getpid()}"
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(self.folder / name)
        finally:
            fresh.unlink(missing_ok=True)

    def _put_back(self, name: str, before: str | None) -> None:
        # Whatever of this fails too, the reason that is told is why the unit was not installed.
        with suppress(Refused):
            if before is None:
                self._control("disable", "--now", name)
        with suppress(OSError, Refused):
            if before is None:
                (self.folder / name).unlink(missing_ok=True)
            else:
                self._put(name, before)
            self._control("daemon-reload")
        if before is not None:
            with suppress(Refused):
                self._control("restart", name)

    def remove(self, name: str) -> bool:
        """Stop, disable and remove the unit; False when there is none. Errors: Refused."""
        path = self.folder / name
        if not path.is_file():
            return False
        self._needed()
        self._control("disable", "--now", name)
        path.unlink()
        self._control("daemon-reload")
        return True

    def lingers(self) -> bool:
        """Whether its units run while nobody is logged in."""
        return not self.own or (Path("/var/lib/systemd/linger") / _name()).exists()

    def _needed(self) -> None:
        if shutil.which("systemctl") is None or not _RUNS.is_dir():
            hint = "start `hallmark watch` from what starts services here"
            raise Refused("systemd does not run on this machine", hint=hint)

    def _control(self, *words: str) -> None:
        argv = ["systemctl", *(["--user"] if self.own else []), *words]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise Refused(f"{' '.join(argv)}: {done.stderr.strip()[-300:]}")


def manager() -> Manager:
    """That of the user who asks."""
    if os.geteuid() == 0:
        return Manager(Path("/etc/systemd/system"), False, _name())
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Manager(config / "systemd" / "user", True, None)


def _name() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name
