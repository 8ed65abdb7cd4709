"""Facts about images that an engine has."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recipe.image.client import Client
from recipe.image.engine import explain, run


@dataclass(frozen=True)
class Image:
    """What an engine says about an image. `created`: seconds since the epoch; `layers`: sha256 of each, base first;
    `manifest_digest`: only when the image came from a registry or went to one under the name that was asked for."""

    config_digest: str
    manifest_digest: str | None
    architecture: str
    created: int
    labels: dict[str, str]
    layers: tuple[str, ...]
    settings: dict[str, Any]

    def same_as(self, other: "Image") -> bool:
        """Whether both hold the same files and settings; when they were made does not count."""
        mine = (self.layers, self.architecture, self.settings)
        return self.config_digest == other.config_digest or mine == (other.layers, other.architecture, other.settings)


def image(client: Client, reference: str) -> Image | None:
    """The image of this name or digest; None when the engine has none. Errors: Unreachable without an engine."""
    done = run(client, "image", "inspect", "--", reference)
    if done.returncode:
        if "no such image" in done.stderr.lower():
            return None
        raise explain(done.stderr.splitlines(), f"{reference} cannot be inspected")
    return read(json.loads(done.stdout)[0], reference)


def tagged(client: Client, label: str) -> dict[str, str]:
    """The images that have this label: the config digest of every tag. Errors: Unreachable without an engine."""
    words = ("image", "ls", "--no-trunc", "--filter", f"label={label}")
    done = run(client, *words, "--format", "{{.Repository}}:{{.Tag}} {{.ID}}")
    if done.returncode:
        raise explain(done.stderr.splitlines(), "images cannot be listed")
    pairs = (line.split(" ") for line in done.stdout.splitlines())
    return {name: digest for name, digest in pairs if not name.endswith(":<none>")}


def read(document: dict[str, Any], reference: str) -> Image:
    """Take what matters out of `docker image inspect`."""
    settings = {key: value for key, value in (document.get("Config") or {}).items() if key in _SETTINGS and value}
    return Image(
        config_digest=document["Id"],
        manifest_digest=_manifest_digest(document.get("RepoDigests") or [], reference),
        architecture=document["Architecture"],
        # Newer engines leave it out where the image does not say.
        created=max(0, int(datetime.fromisoformat(_whole_seconds(document.get("Created") or _BEGUN)).timestamp())),
        labels=settings.get("Labels", {}),
        layers=tuple(document["RootFS"].get("Layers") or ()),
        settings=settings,
    )


def of_config(document: dict[str, Any], digest: str, manifest: str) -> Image:
    """The same from an image's configuration as a registry has it; `digest` and `manifest` are its digests.

    Errors: AttributeError, TypeError when it has another form than a configuration.
    """
    settings = {key: value for key, value in (document.get("config") or {}).items() if key in _SETTINGS and value}
    if not all(isinstance(it, str) for it in (settings.get("Labels") or {}).values()):
        raise TypeError("a label that is no text")
    return Image(
        config_digest=digest,
        manifest_digest=manifest,
        architecture=document.get("architecture", ""),
        created=0,
        labels=settings.get("Labels", {}),
        layers=tuple((document.get("rootfs") or {}).get("diff_ids") or ()),
        settings=settings,
    )


_BEGUN = "1970-01-01T00:00:00Z"
# Of the configuration only what a container gets from its image.
_SETTINGS = (
    "Cmd",
    "Entrypoint",
    "Env",
    "ExposedPorts",
    "Labels",
    "Shell",
    "StopSignal",
    "User",
    "Volumes",
    "WorkingDir",
)


def _manifest_digest(digests: list[str], reference: str) -> str | None:
    repository = repository_of(reference)
    return next((digest for name, _, digest in (it.partition("@") for it in digests) if name == repository), None)


def repository_of(reference: str) -> str:
    """The reference without tag and digest: `host:5000/name:tag@sha256:…` → `host:5000/name`."""
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _whole_seconds(time: str) -> str:
    # Go writes up to nine digits behind the second, Python reads up to six.
    return f"{time[:19]}+00:00"
