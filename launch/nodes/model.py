"""Model folders of nodes: looked at, fetched from the model hub, brought from the head to the others over the fabric.

What moves bytes are the modules of `moving`, which are given to the node's own python3 and need nothing else there.
"""

import base64
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from launch.nodes import reach, stream
from launch.plan.model import INDEX, Fetched, Seen
from launch.plan.place import Place
from recipe.errors import Busy, HallmarkError, Mismatch, Refused, Unreachable

_HERE = Path(__file__).parent
_MARKER = ".hallmark-model.json"
_TIMES = f"{_MARKER}.times"
# The hub's own layout keeps a revision below a folder of its name.
_SNAPSHOT = re.compile(r"/snapshots/([0-9a-f]{40})$")
_LOOK_SECONDS = 120.0
_ERRORS: dict[str, type[HallmarkError]] = {
    "mismatch": Mismatch,
    "refused": Refused,
    "unreachable": Unreachable,
    "busy": Busy,
}
# The program comes as the first line of its input, so that nothing has to be installed or cleaned up on the node.
_RUN = (
    'command -v python3 >/dev/null || { echo "there is no python3" >&2; exit 127; }; IFS= read -r program;'
    ' exec python3 -B -c "$(printf %s "$program" | base64 -d)" "$@"'
)
# Each behind those that it imports.
_MODULES = ("told", "folder", "look", "hub", "fetch", "serve", "program")
_TOGETHER = """
import sys, types
for name, text in {texts!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), vars(module))
raise SystemExit(module.main())
"""
Json = dict[str, Any]
Progress = Callable[[int, int], None]


def look(place: Place, folder: str, *, hashes: bool = False) -> Seen:
    """The node's folder; with `hashes` every byte is read. Errors: Unreachable."""
    seconds = None if hashes else _LOOK_SECONDS
    argv = ("sh", "-c", _script(), "sh", folder, "yes" if hashes else "no")
    return read(place.name, folder, reach.run(place, argv, seconds=seconds).stdout)


def read(node: str, folder: str, text: str) -> Seen:
    """From the lines of model.sh."""
    files: dict[str, int] = {}
    broken: dict[str, str] = {}
    proofs: dict[str, str] = {}
    blobs: dict[str, str] = {}
    times: dict[str, int] = {}
    said: dict[str, str] = {}
    owner = None
    # Names have letters that end a line for Python only.
    for line in text.split("\n"):
        kind, _, rest = line.partition("\t")
        first, _, second = rest.partition("\t")
        if kind == "file":
            files[second] = int(first)
        elif kind == "broken":
            broken[first] = second
        elif kind == "sha256":
            proofs[second] = first
        elif kind == "sha1":
            blobs[second] = first
        elif kind == "time":
            seconds, _, fraction = first.partition(".")
            times[second] = int(seconds) * 10**9 + int(f"{fraction:0<9}"[:9])
        elif kind == "owner":
            owner = (int(first), int(second))
        else:
            said[kind] = first
    index = base64.b64decode(said[INDEX]).decode(errors="replace") if INDEX in said else None
    path = said.get("there", "")
    snapshot = _SNAPSHOT.search(path)
    revision = snapshot[1] if snapshot else None
    fetched: dict[str, Fetched] = {}
    if _MARKER in said:
        revision, fetched = _marker(base64.b64decode(said[_MARKER]))
    written = _times(base64.b64decode(said[_TIMES])) if _TIMES in said else {}
    changed = tuple(path for path in fetched if path in times and times[path] != written.get(path))
    shown = said.get("folder", folder)
    return Seen(
        node,
        shown,
        bool(path),
        files,
        broken,
        index,
        revision,
        proofs,
        owner,
        fetched,
        "unfinished" in said,
        blobs,
        changed,
    )


def _marker(text: bytes) -> tuple[str | None, dict[str, Fetched]]:
    """Revision and files as they were fetched; nothing where that cannot be read."""
    try:
        found = json.loads(text)
        files = {one["path"]: Fetched(one["size"], one.get("sha256"), one.get("sha1")) for one in found["files"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, {}
    return (found["revision"] if isinstance(found.get("revision"), str) else None), files


def _times(text: bytes) -> dict[str, int]:
    """When files were written whose bytes were right, in nanoseconds; nothing where that cannot be read."""
    try:
        return {str(path): int(time) for path, time in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def listing(place: Place, repository: str, revision: str, token: str | None, hub: str | None) -> Json:
    """The manifest of a revision as the node gets it from the hub, or from another one's address.

    Errors: Unreachable; Refused.
    """
    variables = {**_secret(token), **({"HF_ENDPOINT": hub} if hub else {})}
    found: Json = _ask(place, ("list", repository, revision), variables)["manifest"]
    return found


def state(place: Place, folder: str, manifest: Json) -> Json:
    """Free bytes and what is there of a manifest (`free`, `have`, `done`). Errors: Unreachable; Refused."""
    found: Json = _ask(place, ("look", folder), {}, json.dumps(manifest))["look"]
    return found


def scan(place: Place, folder: str, progress: Progress) -> Json:
    """The manifest of what is in the folder. Errors: Unreachable; Refused."""
    found: Json = _ask(place, ("scan", folder), {}, progress=progress)["manifest"]
    return found


def get(place: Place, folder: str, manifest: Json, token: str | None, progress: Progress) -> None:
    """Bring the manifest's files into the folder, going on where an earlier attempt stopped.

    Errors: Mismatch when bytes are not what was announced; Refused; Unreachable; Busy.
    """
    _ask(place, ("get", folder), _secret(token), json.dumps(manifest), progress)


@contextmanager
def serving(place: Place, folder: str, address: str) -> Iterator[tuple[str, str]]:
    """Serve the folder on an address of the node; gives the address of its files, and the token that asks for them.

    Errors: Unreachable; Refused when the address is not the node's.
    """
    token = secrets.token_urlsafe(32)
    host = f"[{address}]" if ":" in address else address
    with stream.program(place, _argv(("serve", folder, address)), _secret(token)) as process:
        assert process.stdin is not None and process.stdout is not None
        stream.give(process, _program())
        line = process.stdout.readline()
        told: Json = json.loads(line) if line.strip() else {}
        if "error" in told:
            raise Refused(f"node {place.name}: cannot serve on {address}: {told['error']['message']}")
        if "port" not in told:
            raise Unreachable(f"node {place.name}: the model cannot be served from there", hint="it needs python3")
        yield f"http://{host}:{told['port']}/", token


def _ask(
    place: Place,
    words: tuple[str, ...],
    variables: Mapping[str, str],
    given: str = "",
    progress: Progress | None = None,
) -> Json:
    told: Json = {}

    def hear(line: str) -> None:
        try:
            value = json.loads(line)
        except ValueError:
            return
        if "done" in value and progress is not None:
            progress(value["done"], value["total"])
        told.update(value)

    status = stream.follow(place, _argv(words), variables, _program() + given + "\n", hear)
    if "error" in told:
        error = told["error"]
        kind = _ERRORS.get(error["kind"], Refused)
        raise kind(error["message"], where=f"node {place.name}", hint=error["hint"])
    if status == 127:
        raise Unreachable("there is no python3", where=f"node {place.name}", hint="install python3 there")
    if status:
        raise Unreachable(f"node {place.name}: what moves the files ended with {status}", hint="run it again")
    return told


def _argv(words: tuple[str, ...]) -> tuple[str, ...]:
    return ("sh", "-c", _RUN, "sh", *words)


def _secret(token: str | None) -> dict[str, str]:
    return {"HALLMARK_TOKEN": token} if token else {}


@cache
def _program() -> str:
    """One program of all modules of `moving`, each under its own name, so that they find each other as they do here."""
    texts = {f"launch.nodes.moving.{name}": (_HERE / "moving" / f"{name}.py").read_text("utf-8") for name in _MODULES}
    return base64.b64encode(_TOGETHER.format(texts=texts).encode()).decode() + "\n"


@cache
def _script() -> str:
    return (_HERE / "model.sh").read_text(encoding="utf-8")
