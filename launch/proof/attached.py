"""Certificates beside their image in a registry, as cosign attaches attestations: layers of one manifest, which has a
tag that is made from the image's digest. What was attached before stays, whoever attached it."""

import json
import re
from collections.abc import Iterator
from typing import Any

from launch.proof.envelope import LARGEST
from launch.proof.statement import TEST_RESULT
from recipe.errors import Refused
from recipe.image.registry import OCI_CONFIG, OCI_MANIFEST, Repository

ENVELOPE = "application/vnd.dsse.envelope.v1+json"
# cosign reads the signature of a layer here; an attestation has its own in the envelope, so that it is empty.
_ANNOTATIONS = {"dev.cosignproject.cosign/signature": "", "predicateType": TEST_RESULT}
_TRIES = 3
_TAG = re.compile(r"sha256-([0-9a-f]{64})\.att")

Json = dict[str, Any]


def tag(manifest: str) -> str:
    """The tag of what is attached to the image with this manifest digest."""
    return f"{manifest.replace(':', '-')}.att"


def everything(repository: Repository) -> Iterator[tuple[str, bytes]]:
    """The digest of every manifest of the repository that something is attached to, with each envelope.

    Errors: as `read`.
    """
    for name in sorted(repository.tags()):
        if found := _TAG.fullmatch(name):
            manifest = f"sha256:{found[1]}"
            yield from ((manifest, envelope) for envelope in read(repository, manifest))


def read(repository: Repository, manifest: str) -> list[bytes]:
    """All envelopes attached to the image, oldest first; not all need be certificates.

    Errors: Unreachable; Refused; Mismatch when the registry sends other bytes than it lists.
    """
    layers = [layer for layer in _layers(repository, manifest)[1] if layer.get("mediaType") == ENVELOPE]
    # What is larger is none of ours, and is not fetched.
    return [repository.blob(layer["digest"]) for layer in layers if layer.get("size", 0) <= LARGEST]


def attach(repository: Repository, manifest: str, envelope: bytes) -> bool:
    """Add an envelope to what is attached; returns whether it had to be added.

    Errors: Unreachable; Refused, also when somebody else keeps writing there at the same time.
    """
    layer = {**repository.put_blob(ENVELOPE, envelope), "annotations": _ANNOTATIONS}
    for tries in range(_TRIES):
        document, layers = _layers(repository, manifest)
        if any(one.get("digest") == layer["digest"] for one in layers):
            return tries > 0
        layers = [*layers, layer]
        config = repository.put_blob(OCI_CONFIG, _dump(_config(layers)))
        written = {**document, "config": config, "layers": layers}
        repository.put_manifest(tag(manifest), OCI_MANIFEST, _dump(written))
    if any(one.get("digest") == layer["digest"] for one in _layers(repository, manifest)[1]):
        return True
    raise Refused(f"{repository.reference.at(tag(manifest))} is written by somebody else", hint="try again")


def _layers(repository: Repository, manifest: str) -> tuple[Json, list[Json]]:
    found = repository.manifest(tag(manifest))
    if found is None:
        return {"schemaVersion": 2, "mediaType": OCI_MANIFEST}, []
    document = found.document
    return document, list(document.get("layers") or ())


def _config(layers: list[Json]) -> Json:
    # Envelopes are stored as they are, so a layer and what it unpacks to have one digest.
    return {
        "architecture": "",
        "os": "",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
    }


def _dump(document: Json) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
