"""Where things are: the project's root, the state and cache folders of this user."""

import os
from pathlib import Path

from recipe.errors import HallmarkError

CHECKOUT = Path(__file__).resolve().parents[2]


def home(start: Path | None = None, explicit: str | None = None) -> Path:
    """Return the project's root: `--home`, else HALLMARK_HOME, else the nearest parent of `start` with
    `configs/`, else this checkout.

    Errors: an explicit folder without `configs/`.
    """
    chosen = explicit or os.environ.get("HALLMARK_HOME")
    if chosen:
        root = Path(chosen).expanduser().resolve()
        if not (root / "configs").is_dir():
            raise HallmarkError(
                f"{chosen!r} has no folder configs/",
                where="--home" if explicit else "HALLMARK_HOME",
                hint="name the folder that contains configs/",
            )
        return root
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "configs" / "profiles").is_dir():
            return folder
    return CHECKOUT


def user_home() -> Path:
    """The user's home folder. Errors: HallmarkError when nothing says where it is."""
    try:
        return Path.home()
    except RuntimeError:
        raise HallmarkError("this user has no home folder", where="HOME", hint="set HOME to a folder") from None


def state() -> Path:
    """Keys, environments and copies of histories: HALLMARK_STATE, else the XDG state folder."""
    return _folder("HALLMARK_STATE", "XDG_STATE_HOME", ".local/state")


def cache() -> Path:
    """Wheels, blobs and virtual environments, all of which can be made again: HALLMARK_CACHE, else XDG."""
    return _folder("HALLMARK_CACHE", "XDG_CACHE_HOME", ".cache")


def _folder(own: str, xdg: str, default: str) -> Path:
    if chosen := os.environ.get(own):
        return Path(chosen).expanduser().resolve()
    base = os.environ.get(xdg)
    return (Path(base) if base else Path.home() / default) / "hallmark"
