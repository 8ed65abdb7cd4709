"""Sources in memory, for plans and audits without a wheel."""

from collections.abc import Iterable
from pathlib import Path

from recipe.applier.manifest import Manifest
from recipe.catalogue.compile import Patch, load_patch

HEAD = """\
id: {id}
title: {id}
class: {kind}
why: a test
upstream: {{none: a test, status: none, checked: "2026-12-01"}}
remove-when: never
edits:
"""


class Memory:
    """A release as its own wheel has it: path → text."""

    manifest: Manifest | None = None

    def __init__(self, version: str, files: dict[str, str], *, pristine: bool = True) -> None:
        self.version, self.contents, self.pristine = version, files, pristine

    def read(self, file: str) -> bytes | None:
        text = self.contents.get(file)
        return None if text is None else text.encode()

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        return self.pristine

    def files(self) -> Iterable[str]:
        return self.contents


def patch(folder: Path, id: str, edits: str, kind: str = "temporary") -> Patch:
    """A patch file with these edits, one YAML list item a line."""
    path = folder / f"{id}.yaml"
    path.write_text(HEAD.format(id=id, kind=kind) + edits, encoding="utf-8")
    return load_patch(path)
