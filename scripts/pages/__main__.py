"""Writes the pages and schemas that are generated from data; with --check says which are stale and exits 2."""

import sys
from pathlib import Path

from pydantic import BaseModel

from recipe.catalogue.model import PatchFile
from recipe.catalogue.releases import Releases
from recipe.config import paths, schema
from recipe.config.known_errors import KnownErrors
from scripts.pages import api, gates, patches, profiles, support


def main(arguments: list[str]) -> int:
    """Write or check every generated file; returns the exit status."""
    pages = {
        "docs/gates.md": gates.page(),
        "docs/api.md": api.page(),
        "docs/patches.md": patches.page(),
        "docs/profiles.md": profiles.page(),
        "docs/support.md": support.page(),
        **{f"configs/schema/{name}.json": schema.text(model) for name, model in _models().items()},
    }
    stale = []
    for name, content in pages.items():
        path = paths.CHECKOUT / name
        if path.is_file() and path.read_text(encoding="utf-8") == content:
            continue
        stale.append(name)
        if arguments != ["--check"]:
            _write(path, content)
    for name in stale:
        print(f"{name}: {'is stale — run python -m scripts.pages' if arguments == ['--check'] else 'written'}")
    return 2 if stale and arguments == ["--check"] else 0


def _models() -> dict[str, type[BaseModel]]:
    return {**schema.MODELS, "patch": PatchFile, "releases": Releases, "known-errors": KnownErrors}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


raise SystemExit(main(sys.argv[1:]))
