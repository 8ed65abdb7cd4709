"""Facts about the images on one engine that this project built and about what refers to them there; their removal."""

import base64
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from launch.nodes import reach
from launch.nodes.shelf import unpack
from launch.plan.place import Place
from recipe.errors import Mismatch, Refused
from recipe.image.plan import LABEL

_HEX = 64
# Of all clusters that have records or copies of them in this folder, behind a line that says whether it is one for
# records at all. Whatever is there and cannot be looked at ends this: what is not seen would count as referring to
# nothing. Links lead to records too.
_RECORDS = """\
case $1 in
  \\~) set -- "$HOME" ;;
  \\~/*) set -- "$HOME/${1#\\~/}" ;;
esac
case $(LC_ALL=C ls -dL -- "$1" 2>&1 >/dev/null) in
  *'No such file'*) [ ! -L "$1" ] && echo none && exit 0 ;;
esac
cd -- "$1" || exit 3
set --
for it in clusters copies; do
  [ -e "$it" ] || [ -L "$it" ] || continue
  [ -d "$it" ] || { echo "$it is no folder" >&2; exit 3; }
  set -- "$@" "$it"
done
[ $# -gt 0 ] || { echo none; exit 0; }
echo records
found=$(find -L "$@" \\( -type f -o -type l \\) \\( -name journal.jsonl -o -path '*/certificates/*.json' \\)) || exit 3
links=$(find -L "$@" -maxdepth 2 -type l) || exit 3
if [ -n "$links" ]; then echo "this leads nowhere: $links" >&2; exit 3; fi
[ -n "$found" ] || exit 0
exec 4>&1
status=$({ { printf '%s\\n' "$found" | tar -chzf - -T -; echo $? >&3; } | base64 >&4; } 3>&1)
# 1: a file grew while it was read, as journals do; what stood in it before is there.
[ "$status" -le 1 ] || exit 3
"""


@dataclass(frozen=True)
class Stocked:
    """An image with a patch set of ours. `digest`: sha256:HEX of its configuration; `names`: its tags and digests."""

    place: Place
    digest: str
    labels: dict[str, str]
    names: tuple[str, ...]


@dataclass
class Stock:
    """What one engine has. `engine`: what tells it from others, whatever way it is reached; `used`: by config digest
    the containers, running or not, that were made of it."""

    place: Place
    engine: str
    images: list[Stocked] = field(default_factory=list)
    used: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Referred:
    """What the records in a folder of a node refer to: by digest (hex) which ones do. `there`: whether the folder is
    one for records; a disk that is not mounted leaves one that is empty. `files`: how many records it has."""

    place: Place
    state: str
    digests: dict[str, set[str]]
    there: bool
    files: int


def stock(place: Place) -> Stock:
    """Look at one engine. Errors: Unreachable; Refused with docker's own words."""
    # The id alone does not do: machines that were copied have the same.
    found = Stock(place, reach.docker(place, "info", "--format", "{{.ID}} {{.Name}} {{.DockerRootDir}}").strip())
    words = ("image", "ls", "--no-trunc", "--quiet", "--filter", f"label={LABEL}.patchset")
    ids = list(dict.fromkeys(reach.docker(place, *words).split()))
    documents: list[dict[str, Any]] = json.loads(reach.docker(place, "image", "inspect", *ids)) if ids else []
    for it in documents:
        names = (*(it.get("RepoTags") or ()), *(it.get("RepoDigests") or ()))
        labels = (it.get("Config") or {}).get("Labels") or {}
        found.images.append(Stocked(place, it["Id"], labels, tuple(name for name in names if "<none>" not in name)))
    containers = reach.docker(place, "ps", "--all", "--quiet", "--no-trunc").split()
    if containers:
        lines = reach.docker(place, "inspect", "--type", "container", "--format", "{{.Image}} {{.Name}}", *containers)
        for digest, _, name in (line.partition(" ") for line in lines.splitlines()):
            found.used.setdefault(digest, []).append(name.removeprefix("/"))
    return found


def present(place: Place) -> set[str]:
    """The config digests of all images of an engine. Errors: Unreachable; Refused."""
    return set(reach.docker(place, "image", "ls", "--no-trunc", "--quiet").split())


def referred(place: Place, state: str) -> Referred:
    """What histories and certificates below the folder `state` of a node name.

    Errors: Unreachable; Mismatch when a record cannot be read, because then nothing is known.
    """
    done = reach.run(place, ("sh", "-c", _RECORDS, "sh", state))
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if not line.startswith("tar: Exiting")]
        told = lines[-1] if lines else f"status {done.returncode}"
        raise Mismatch(
            f"the records cannot be read, so nothing says what they refer to: {told}",
            where=f"{place.name}:{state}",
            hint="put it right; until then nothing is removed",
        )
    there, _, packed = done.stdout.partition("\n")
    try:
        files = unpack(packed)
    except (tarfile.TarError, ValueError, EOFError, OSError) as error:
        raise Refused(f"node {place.name}: the records did not arrive whole: {error}", where=state) from None
    found: dict[str, set[str]] = {}
    for name, content in files.items():
        kind, cluster, *rest = name.split("/")
        # A copy's folder has the id of the records that it is of.
        cluster = cluster.rpartition("-")[0] if kind == "copies" else cluster
        what = f"{'certificate' if rest[0] == 'certificates' else 'history'} of {cluster}"
        try:
            digests = set(_certified(content) if rest[0] == "certificates" else _journalled(content))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            hint = "put it right or move it away; until then nothing is removed"
            where = f"{place.name}:{state}/{name}"
            raise Mismatch("cannot be read, so nothing says what it refers to", where=where, hint=hint) from None
        for digest in digests:
            found.setdefault(digest, set()).add(what)
    return Referred(place, state, found, there == "records", len(files))


def remove(image: Stocked) -> str | None:
    """Remove an image with all its names; gives docker's words when it keeps it, such as for a container that was made
    meanwhile.

    Errors: Unreachable.
    """
    done = reach.answer(image.place, "image", "rm", *(image.names or (image.digest,)))
    there = reach.answer(image.place, "image", "inspect", "--format", "{{.Id}}", image.digest)
    if there.returncode:
        if "no such image" not in there.stderr.lower():
            raise reach.refused(image.place, there, "docker image inspect failed")
        return None
    return (done.stderr.strip().splitlines() or ["docker did not say why"])[-1]


def _journalled(content: bytes) -> Iterator[str]:
    for line in content.splitlines(keepends=True):
        # What was torn off in the middle never took effect.
        if line.endswith(b"\n"):
            yield from _digests(dict(json.loads(line)["data"]))


def _digests(value: Any) -> Iterator[str]:
    """Every digest in an entry, whatever kind of entry it is."""
    if isinstance(value, dict):
        for name, inner in value.items():
            text = inner.removeprefix("sha256:") if name == "digest" and isinstance(inner, str) else ""
            if len(text) == _HEX:
                yield text
            else:
                yield from _digests(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _digests(inner)


def _certified(content: bytes) -> Iterator[str]:
    statement = json.loads(base64.b64decode(json.loads(content)["payload"]))
    for subject in statement["subject"]:
        yield subject["digest"]["sha256"]
