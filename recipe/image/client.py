"""Facts about docker programs on this machine: which of them can build with BuildKit, and how."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from recipe.errors import HallmarkError

VARIABLE = "HALLMARK_DOCKER"
# From 23 on the program builds with BuildKit only through the buildx plugin; before 18.09 there was no BuildKit.
_BUILT_IN = range(18, 23)
# None of what is asked takes longer, and a plugin that waits for something would never answer.
_SECONDS = 20.0
_INSTALL = "install docker-buildx-plugin (or docker-buildx)"


@dataclass(frozen=True)
class Client:
    """A docker program that can build with BuildKit: through the plugin buildx, or by itself. `context`: where its
    engine is, which is also how buildx calls the builder that is that engine's own."""

    program: str
    buildx: bool
    context: str = "default"


def find() -> Client:
    """The program that HALLMARK_DOCKER names, or the first `docker` on PATH that can build with BuildKit.

    Errors: HallmarkError with what was found and what to install.
    """
    named = os.environ.get(VARIABLE)
    programs = _named(named) if named else _on_path()
    if not programs:
        raise HallmarkError("there is no program docker on PATH", hint=f"install docker, or name it with {VARIABLE}")
    seen = []
    for program in programs:
        version, buildx = _version(program), _has_buildx(program)
        if buildx or (version is not None and version[0] in _BUILT_IN):
            return Client(program, True, _context(program)) if buildx else Client(program, False)
        seen.append(f"{program} ({'.'.join(map(str, version)) if version else 'no docker'})")
    other = "name another program" if named else f"name a client from 18.09 to 22 with {VARIABLE}"
    raise HallmarkError(
        f"cannot build with BuildKit: {', '.join(seen)} has no buildx",
        where=VARIABLE if named else None,
        hint=f"{_INSTALL}, or {other}",
    )


def plain() -> Client:
    """The program that HALLMARK_DOCKER names, or `docker`: any can ask an engine and push, only building asks for more.

    Errors: HallmarkError when there is no such program.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Client(_named(named)[0], buildx=False)
    if shutil.which("docker") is None:
        raise HallmarkError("there is no program docker on PATH", hint=f"install docker, or name it with {VARIABLE}")
    return Client("docker", buildx=False)


def _named(name: str) -> list[str]:
    found = shutil.which(name)
    if found is None:
        raise HallmarkError(f"there is no program {name!r}", where=VARIABLE, hint="name a docker program")
    return [found]


def _on_path() -> list[str]:
    found: dict[Path, str] = {}
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        # An empty entry means the working folder, where no program is looked for.
        program = shutil.which("docker", path=folder) if folder else None
        if program:
            found.setdefault(Path(program).resolve(), program)
    return list(found.values())


def _version(program: str) -> tuple[int, int, int] | None:
    match = re.match(r"Docker version (\d+)\.(\d+)\.(\d+)", _said(program, "--version") or "")
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _has_buildx(program: str) -> bool:
    return "buildx" in (_said(program, "buildx", "version") or "")


def _context(program: str) -> str:
    return (_said(program, "context", "inspect", "--format", "{{.Name}}") or "").strip() or "default"


def _said(program: str, *words: str) -> str | None:
    """What it writes; None when it fails, hangs, or is a file that cannot be run here."""
    argv = [program, *words]
    try:
        done = subprocess.run(
            argv,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
