"""Layers of images on nodes: what an engine has, and how it gets what it lacks.

A node pulls from a registry, or gets only the layers that it lacks as an archive through the SSH connection.
"""

import hashlib
import json
import re
import subprocess
import tempfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from launch.nodes import reach, ssh, stream
from launch.plan import layers
from launch.plan.layers import Held
from launch.plan.place import Place
from recipe.errors import Mismatch, Unreachable
from recipe.image.reference import Reference

_HELD = (
    'ids=$("$@" image ls --quiet --no-trunc | sort -u); [ -z "$ids" ] ||'
    ' "$@" image inspect --format "{{.Size}} {{json .RootFS.Layers}}" $ids'
)
# What docker writes of each layer where it does not write to a terminal.
_BEGUN = re.compile(r"^\w{12}: (?:Pulling fs layer|Already exists)")
_ENDED = re.compile(r"^\w{12}: (?:Pull complete|Already exists)")
# Ends docker when its own input closes, as it does when the connection is lost: the engine would go on fetching for it,
# through a way that may be gone, and make whoever pulls the same layer next wait for that. What docker writes to its
# standard error says why it failed.
_PULL = """\
exec 3<&0
"$@" 2>&1 </dev/null 3<&- & pull=$!
{ read -r line <&3; kill $pull; } >/dev/null 2>&1 & guard=$!
wait $pull; status=$?
kill $guard 2>/dev/null
exit $status
"""
_CHUNK = 2**20
Hear = Callable[[int, int], None]


def held(place: Place) -> list[Held]:
    """The images of a node's engine. Errors: Unreachable."""
    done = reach.run(place, ("sh", "-c", _HELD, "sh", *reach.command(place)), seconds=reach.QUESTION_SECONDS)
    # One that was removed meanwhile is an error of the command, and the others are told all the same.
    pairs = (line.partition(" ") for line in done.stdout.splitlines() if line)
    return [Held(int(size), tuple(json.loads(found) or ())) for size, _, found in pairs]


def pull(place: Place, name: str, hear: Hear) -> None:
    """Let the node's engine pull a name. Errors: Unreachable; Refused with docker's own words."""
    begun = ended = 0
    lines: list[str] = []

    def read(line: str) -> None:
        nonlocal begun, ended
        lines.append(line)
        begun += bool(_BEGUN.match(line))
        ended += bool(_ENDED.match(line))
        if begun:
            hear(ended, begun)

    argv = ("sh", "-c", _PULL, "sh", *reach.command(place, "pull", name))
    status = stream.follow(place, argv, {}, "", read)
    if status:
        done = subprocess.CompletedProcess(argv, status, "", "".join(lines))
        raise reach.refused(place, done, "docker pull failed")


def load(place: Place, archive: IO[bytes]) -> None:
    """Let the node's engine load an archive. Errors: Unreachable; Refused with docker's own words."""
    words = list(reach.command(place, "load", "--quiet"))
    argv = words if place.local else ssh.command(place, words, options=["-o", "ControlPath=none"])
    archive.seek(0)
    done = subprocess.run(
        argv, stdin=archive, capture_output=True, check=False, text=True, errors="replace", start_new_session=True
    )
    if not place.local and done.returncode == ssh.FAILED:
        raise ssh.failure(place, done.stderr)
    if done.returncode:
        raise reach.refused(place, done, "docker load failed")


def archive(source: Reference, manifest: str, count: int, name: str, stack: ExitStack) -> IO[bytes]:
    """An archive of the image in a registry of this machine's loopback, without its first `count` layers.

    It and what it is made from lie in a temporary folder until `stack` is closed.
    Errors: Unreachable; Mismatch when the registry has another content than it says.
    """
    from recipe.image.registry import Repository

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hallmark-")))
    with Repository(source) as repository:
        found = repository.manifest(manifest)
        if found is None or found.config is None:
            raise Unreachable(f"{source.at(manifest)} is not in the registry")
        config = repository.blob(found.config)
        wanted: list[str] = json.loads(config)["rootfs"]["diff_ids"]
        blobs = [one["digest"] for one in found.document["layers"]]
        paths: dict[str, Path] = {}
        for number in range(count, len(wanted)):
            paths[wanted[number]] = folder / str(number)
            _unpacked(source, blobs[number], wanted[number], folder / str(number))
    file = stack.enter_context((folder / "image.tar").open("w+b"))
    layers.write(file, name, (found.config, config), wanted, paths)
    return file


def _unpacked(source: Reference, blob: str, layer: str, path: Path) -> None:
    """Fetch a layer and store it as the engine knows it, which is not compressed."""
    import httpx

    made, packed = hashlib.sha256(), zlib.decompressobj(wbits=31)
    url = f"http://{source.host}/v2/{source.path}/blobs/{blob}"
    try:
        with path.open("wb") as file, httpx.stream("GET", url, trust_env=False, timeout=60) as answer:
            answer.raise_for_status()
            for block in answer.iter_raw(_CHUNK):
                content = packed.decompress(block)
                made.update(content)
                file.write(content)
            rest = packed.flush()
            made.update(rest)
            file.write(rest)
    except (httpx.HTTPError, zlib.error) as error:
        raise Unreachable(f"the layer {blob} cannot be read: {error}", where=url) from None
    if f"sha256:{made.hexdigest()}" != layer:
        raise Mismatch(f"the layer {blob} is not {layer}", where=url)
