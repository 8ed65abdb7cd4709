"""Runs `hallmark` on a real engine, and looks at what the engine has then."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.engines.engine import Engine

_HALLMARK = Path(sys.executable).parent / "hallmark"


@dataclass(frozen=True)
class Result:
    """A finished `hallmark … --json`: its status, document and what it told."""

    status: int
    document: dict[str, Any]
    told: str


def build(
    engine: Engine, *arguments: str, host: str | None = None, umask: int = -1, home: Path | None = None
) -> Result:
    return hallmark(engine, "image", *arguments, host=host, umask=umask, home=home)


def hallmark(
    engine: Engine, *arguments: str, host: str | None = None, umask: int = -1, home: Path | None = None
) -> Result:
    environment = {**os.environ, "DOCKER_HOST": host or engine.host}
    done = subprocess.run(
        [str(_HALLMARK), *(["--home", str(home)] if home else []), *arguments, "--json"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        umask=umask,
    )
    return Result(done.returncode, json.loads(done.stdout), done.stderr)


def tags(engine: Engine) -> set[str]:
    """Every tag with the image that it names."""
    listed = engine.docker("image", "ls", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}").stdout
    return {line for line in listed.splitlines() if "<none>" not in line}


def facts(engine: Engine, reference: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(engine.docker("image", "inspect", reference).stdout)[0]
    return found
