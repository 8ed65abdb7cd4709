"""What docker knows of a registry's users: its config.json, and the helpers that it names. Reads only."""

import json
import os
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

from recipe.errors import HallmarkError

_HUB = "https://index.docker.io/v1/"


def login(host: str) -> tuple[str, str] | None:
    """User and password for a registry; None when docker has none.

    Errors: HallmarkError when the file cannot be read; a value is never part of a message.
    """
    path = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        key = _HUB if host == "docker.io" else host
        helper = (document.get("credHelpers") or {}).get(key) or document.get("credsStore")
        if helper:
            return _helped(str(helper), key)
        auths = document.get("auths") or {}
        entry = auths.get(key) or auths.get(f"https://{key}") or {}
        if not entry.get("auth"):
            return None
        user, _, password = b64decode(entry["auth"]).decode().partition(":")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        raise HallmarkError(
            "cannot be read as docker's settings", where=str(path), hint="`docker login` again"
        ) from None
    return user, password.rstrip("\0")


def _helped(helper: str, key: str) -> tuple[str, str] | None:
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run([program, "get"], check=False, capture_output=True, text=True, input=key)
        found = json.loads(done.stdout) if done.returncode == 0 else None
        user, secret = (str(found["Username"]), str(found["Secret"])) if found else ("<token>", "")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise HallmarkError(
            f"{program} cannot be run or gives no login, and docker's settings name it", hint="install it"
        ) from None
    # <token> stands for an identity token, which is exchanged otherwise than a password.
    return (user, secret) if user != "<token>" else None
