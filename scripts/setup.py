"""Makes .venv: the locked packages, then this checkout as the command `hallmark`. Standard library only."""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Install, or say what is missing. Safe to repeat."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this is where an older one is told apart
        raise SystemExit(
            f"setup: Hallmark needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}"
            " — run make setup PYTHON=python3.11"
        )
    folder = ROOT / ".venv"
    python = folder / "bin" / "python"
    if not python.exists():
        try:
            venv.create(folder, with_pip=True)
        except subprocess.CalledProcessError:
            raise SystemExit("setup: Python cannot make virtual environments — install python3-venv") from None
    print("setup: installing the locked packages into .venv", file=sys.stderr, flush=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    lock = str(ROOT / "requirements.lock")
    if subprocess.run([*pip, "--require-hashes", "--only-binary=:all:", "-r", lock], check=False).returncode:
        raise SystemExit("setup: pip could not install requirements.lock — see its message above")
    # Without isolation the build uses the locked hatchling instead of fetching one.
    own = [*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    if subprocess.run(own, check=False).returncode:
        raise SystemExit("setup: pip could not install this checkout — see its message above")


main()
