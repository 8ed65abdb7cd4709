"""systemd of this machine: the system's for root, else the user's own."""

import os
import pwd
import shutil
import subprocess
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

    def install(self, name: str, text: str) -> bool:
        """Write the unit, enable it and start it; False when exactly this was there. Errors: Refused."""
        self._needed()
        path = self.folder / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            self._control("enable", "--now", name)
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        try:
            self._control("daemon-reload")
            self._control("enable", name)
            self._control("restart", name)
        except BaseException:
            path.unlink()
            raise
        return True

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
