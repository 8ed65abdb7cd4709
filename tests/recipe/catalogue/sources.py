"""Small sources: in memory, for plans and audits without a wheel, and as a wheel."""

import base64
import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path

from packaging.version import Version

from recipe.applier.manifest import Manifest
from recipe.catalogue.compile import Patch, load_patch
from recipe.catalogue.releases import Release

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


def make_wheel(folder: Path, files: dict[str, bytes], version: str = "9.9.0") -> Release:
    """A wheel of vLLM in `folder`, and the line that lists it."""
    folder.mkdir(exist_ok=True)
    info = f"vllm-{version}.dist-info"
    members = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()) for name, data in members.items()}
    rows = [f"{name},sha256={digests[name].rstrip(b'=').decode()},{len(data)}" for name, data in members.items()]
    path = folder / f"vllm-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Release(("vllm", Version(version)), version, "vllm", digest)
