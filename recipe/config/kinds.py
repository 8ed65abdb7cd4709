"""Loads a file of configs/ whose key `kind` says which model it follows."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from recipe.config.explain import nearest, validate
from recipe.config.load import names
from recipe.config.source import read
from recipe.errors import ConfigError, HallmarkError, Problem

M = TypeVar("M", bound=BaseModel)


def load_kind(home: Path, folder: str, noun: str, name: str, kinds: Mapping[str, type[M]]) -> M:
    """Read configs/FOLDER/NAME.yaml, the project's own or this checkout's.

    Errors: ConfigError with every mistake of the file; HallmarkError with the known names when there is none.
    """
    known = names(home, folder)
    if name not in known:
        near = nearest(name, known)
        listed = ", ".join(known) or f"none; write configs/{folder}/NAME.yaml"
        hint = f"did you mean {near}? known: {listed}" if near else f"known: {listed}"
        raise HallmarkError(f"there is no {noun} {name!r}", hint=hint)
    document = read(known[name])
    kind = document.data.get("kind")
    model = kinds.get(kind) if isinstance(kind, str) else None
    if model is None:
        what = "is missing" if kind is None else f"{kind!r} is not a kind of {noun}"
        raise ConfigError([Problem(f"kind: {what}", document.where(("kind",)), f"write one of: {', '.join(kinds)}")])
    # By its own model and not by a union, so that a mistake is explained with that kind's keys.
    return validate(document, model)
