"""What it takes to bring an update of patches to a node that has the base: by staging, and by `docker save` and ssh.

Two real engines of this machine, the second behind an sshd."""

import gzip
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from launch.nodes import registry, ssh
from launch.nodes.image import staged
from launch.plan.place import Place
from recipe.catalogue.compile import series
from recipe.config import paths
from recipe.errors import Refused
from recipe.image.reference import Reference
from recipe.image.registry import Repository
from scripts.bases import archive, vllm
from scripts.engines.group import Group, running
from scripts.engines.packages import program

RELEASE = "0.33.0"
_RUNS = 3
_HALLMARK = Path(sys.executable).parent / "hallmark"
# What staging calls the repository of the registry that it serves.
_REPOSITORY = "hallmark"


@dataclass(frozen=True)
class Measured:
    """`sent`: bytes of the layer as it travels, with the image's configuration and manifest; `record`: the share of
    RECORD in the layer; `archive`: bytes of `docker save`; both ways' median seconds; `image`: bytes of the image."""

    sent: int
    record: float
    archive: int
    seconds: float
    archive_seconds: float
    image: int
    patches: int


def measure() -> Measured:
    """Build the catalogue less one patch, give it to the node, and then update the node to the whole catalogue."""
    with ExitStack() as stack:
        group = stack.enter_context(running(2))
        program("docker-registry", "docker-registry")
        base = vllm.amd64()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hallmark-")))
        variables = {
            "DOCKER_HOST": group.engines[0].host,
            "HALLMARK_SSH_CONFIG": str(group.config),
            # Wheels are found where they are; images are staged from an empty registry.
            "HALLMARK_CACHE": str(folder / "cache"),
        }
        (folder / "cache").mkdir()
        (folder / "cache" / "wheels").symlink_to(paths.cache() / "wheels")
        stack.enter_context(_environment(variables))
        archive.load(base, group.engines[0].client, group.engines[0].host)
        every = series()
        place = Place("node-2", f"ssh://127.0.0.2:{group.nodes[1].port}")
        before = _built(folder, "before", base.reference, every[:-1])
        after = _built(folder, "after", base.reference, every)
        staged("before", before[7:], [place]).stage(_quiet)
        seconds, archive_seconds, size = [], [], 0
        for _ in range(_RUNS):
            began = time.monotonic()
            staged("after", after[7:], [place]).stage(_quiet)
            seconds.append(time.monotonic() - began)
            _forget(group, after)
            began = time.monotonic()
            size = _save_and_load(group, after)
            archive_seconds.append(time.monotonic() - began)
            _forget(group, after)
        sent, record = _sent(after)
        image = int(group.engines[0].docker("image", "inspect", "--format", "{{.Size}}", after).stdout)
        return Measured(
            sent,
            record,
            size,
            statistics.median(seconds),
            statistics.median(archive_seconds),
            image,
            len(every),
        )


def _built(folder: Path, name: str, base: str, patches: list[str]) -> str:
    """The config digest of an image with these patches."""
    values = yaml.safe_load((paths.CHECKOUT / "configs/profiles/h200-fp8-dspark.yaml").read_text())
    values |= {"base": base, "patches": {"optional": patches}}
    profile = folder / f"{name}.yaml"
    profile.write_text(yaml.safe_dump(values))
    done = subprocess.run([_HALLMARK, "image", profile, "--json"], check=False, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"the image with {len(patches)} patches cannot be built: {done.stderr.strip()[-300:]}")
    return str(json.loads(done.stdout)["config_digest"])


def _sent(image: str) -> tuple[int, float]:
    """Bytes of what is new in the image in the registry of the staging, and the share of RECORD in its layer."""
    with registry.serving() as port, Repository(Reference(f"127.0.0.1:{port}", _REPOSITORY)) as repository:
        manifest = repository.manifest(image[7:19])
        assert manifest is not None and manifest.config == image
        layer = manifest.document["layers"][-1]
        blob = repository.blob(layer["digest"])
        size = layer["size"] + manifest.document["config"]["size"] + len(manifest.content)
    with tarfile.open(fileobj=io.BytesIO(blob), mode="r:gz") as files:
        [name] = [it for it in files.getnames() if it.endswith("/RECORD")]
        record = files.extractfile(name)
        assert record is not None
        return size, len(gzip.compress(record.read())) / len(blob)


def _save_and_load(group: Group, image: str) -> int:
    """Bring the image to the node as an archive; gives the archive's bytes."""
    left, right = group.engines
    node = group.nodes[1]
    save = [left.client, "--host", left.host, "save", image]
    load = ["ssh", "-F", str(group.config), node.name, "docker", "--host", right.host, "load", "--quiet"]
    size = 0
    with (
        subprocess.Popen(save, stdout=subprocess.PIPE) as source,
        subprocess.Popen(load, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as target,
    ):
        assert source.stdout is not None and target.stdin is not None
        while part := source.stdout.read(2**20):
            size += len(part)
            target.stdin.write(part)
        target.stdin.close()
    if source.returncode or target.returncode:
        raise Refused(f"docker save ended with {source.returncode}, ssh docker load with {target.returncode}")
    return size


def _forget(group: Group, image: str) -> None:
    """The node loses the image, and keeps the base under the other one."""
    group.engines[1].docker("image", "rm", "--force", image)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    ssh._sockets.cache_clear()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _quiet(_: str) -> None:
    return
