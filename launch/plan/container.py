"""What the container of a rank gets from its node: mounts, devices, limits, labels. Never `--privileged`."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from recipe.config.models import Profile

LABEL = "dev.hallmark"
# Images of vLLM run as root; kernels' compilers keep their caches under its home.
HOME = "/root"


@dataclass(frozen=True)
class Mount:
    """A folder of the node (`source`) at `target` in the container. Writable sources must be made first."""

    source: str
    target: str
    read_only: bool = False

    @property
    def option(self) -> str:
        """The value of `docker run --mount`, which unlike `--volume` never makes a missing folder."""
        fields = ["type=bind", f"source={self.source}", f"target={self.target}"]
        if self.read_only:
            fields.append("readonly")
        # One line of CSV, so that a path may have a comma.
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(fields)
        return line.getvalue()


@dataclass(frozen=True)
class Adopted:
    """A container that somebody started by hand. `id` is the engine's; `options`: what `docker run` would be told to
    make it again, beside what every container has here."""

    id: str
    options: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Container:
    """Everything about a rank's container but its command and environment. `ulimits`: -1 is no limit."""

    name: str
    image: str
    mounts: tuple[Mount, ...]
    devices: tuple[str, ...]
    cap_add: tuple[str, ...]
    ulimits: dict[str, int]
    shm_size: str
    gpus: str | None
    labels: dict[str, str]
    network: str = "host"
    # A single rank that comes back alone waits for the others forever, so the group is started again as one.
    restart: str = "no"
    init: bool = True
    # A headless rank takes 11 s to end; Docker's own 10 s would kill it.
    stop_timeout: int = 30
    adopted: Adopted | None = None


def model_path(profile: Profile) -> str:
    """Where the model is inside the container."""
    return profile.container.model or f"/models/{profile.model_folder}"


def mounts(profile: Profile, models: str, cache: str, key: str) -> tuple[Mount, ...]:
    """The model, read-only, and the compile caches.

    Kernel caches belong to a base image on one kind of hardware, so that a small patch does not pay the long
    compilation again; vLLM's own belongs to `key`, so that an old image never reads a newer one's.
    """
    kernels = f"{cache}/kernels/{slug(profile.base or key)}-{profile.hardware}"
    return (
        Mount(f"{models}/{profile.model_folder}", model_path(profile), read_only=True),
        Mount(f"{kernels}/cache", f"{HOME}/.cache"),
        Mount(f"{kernels}/triton", f"{HOME}/.triton"),
        Mount(f"{kernels}/tilelang", f"{HOME}/.tilelang"),
        Mount(f"{cache}/vllm/{key}", f"{HOME}/.cache/vllm"),
    )


def cache_variables() -> dict[str, str]:
    """vLLM would keep DeepGEMM's kernels inside its own cache, and compile them again for every patch set."""
    return {"DG_JIT_CACHE_DIR": f"{HOME}/.cache/deep_gemm"}


def labels(cluster: str, profile: str, patchset: str | None, rank: int) -> dict[str, str]:
    """Labels that make a container ours; nothing without them is ever stopped or removed."""
    found = {"cluster": cluster, "profile": profile, "patchset": patchset, "rank": str(rank)}
    return {f"{LABEL}.{key}": value for key, value in found.items() if value is not None}


def name(cluster: str, rank: int, parts: Mapping[str, object]) -> str:
    """A name for the container that is the same for the same plan, so that an old one can stay stopped beside it."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return f"hallmark-{slug(cluster)}-r{rank}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def slug(reference: str) -> str:
    """A file name for an image: its digest when it has one, else its words."""
    digest = re.search(r"@sha256:([0-9a-f]{12})", reference)
    return digest[1] if digest else re.sub(r"[^A-Za-z0-9.]+", "-", reference).strip("-.")


def container(
    profile: Profile, image: str, identity: str, mounted: tuple[Mount, ...], labelled: dict[str, str]
) -> Container:
    """The container that a profile asks for."""
    asked = profile.container
    return Container(
        name=identity,
        image=image,
        mounts=mounted,
        devices=("/dev/infiniband",) if asked.infiniband else (),
        cap_add=("IPC_LOCK",) if asked.ipc_lock else (),
        ulimits={"memlock": -1} if asked.memlock else {},
        shm_size=asked.shm_size,
        gpus="all" if asked.gpus else None,
        labels=labelled,
    )
