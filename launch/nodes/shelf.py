"""The folder of one cluster's records on one node, reached by a script that runs there; archives to and from it."""

import base64
import io
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from launch.nodes import reach
from launch.plan.place import Place
from recipe.config.load import Loaded
from recipe.config.models import Cluster
from recipe.errors import Refused


@dataclass(frozen=True)
class Shelf:
    """`state`: `paths.state` as that node understands it; `name`: the cluster's."""

    place: Place
    state: str
    name: str

    @property
    def where(self) -> str:
        """For messages: the folder, behind its node when that is not this machine."""
        folder = f"{self.state.rstrip('/')}/clusters/{self.name}"
        return folder if self.place.local else f"{self.place.name}:{folder}"

    def ask(
        self, action: str, *words: str, given: str = "", expect: Sequence[int] = (0,)
    ) -> "subprocess.CompletedProcess[str]":
        """Run one action of records.sh, which may all be repeated.

        Errors: Unreachable; Refused when it ends with another status than those of `expect`.
        """
        argv = ("sh", "-c", _script(), "sh", self.state, self.name, action, *words)
        done = reach.run(self.place, argv, given=given)
        if done.returncode not in expect:
            lines = [line for line in done.stderr.strip().splitlines() if not line.startswith("tar: Exiting")]
            lines = lines or [f"`{action}` ended with {done.returncode}"]
            what = f"node {self.place.name}: the records cannot be used: {lines[-1]}"
            raise Refused(what, where=self.where, hint="mend that first, or change paths.state of the cluster")
        return done


def shelves(cluster: Loaded[Cluster]) -> list[Shelf]:
    """One for each machine of the cluster, the head's first."""
    state = cluster.value.paths.state
    # A relative path is beside the cluster's file; the rules allow it only where every node is this machine.
    here = str((cluster.path.parent / Path(state).expanduser()).absolute())
    found: dict[str, Shelf] = {}
    for node in cluster.value.nodes:
        place = Place(node.name, node.address, node.docker_host)
        found.setdefault(node.address, Shelf(place, here if node.local else state, cluster.name))
    return list(found.values())


def pack(files: Mapping[str, bytes]) -> str:
    """An archive of these files, as the script takes it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return base64.encodebytes(made.getvalue()).decode()


def unpack(text: str) -> dict[str, bytes]:
    """The files of an archive that the script gave, by their paths in the folder."""
    found: dict[str, bytes] = {}
    if not text.strip():
        return found
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(text)), mode="r:gz") as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            if content is not None:
                found[entry.name.removeprefix("./")] = content.read()
    return found


@cache
def _script() -> str:
    return Path(__file__).with_name("records.sh").read_text(encoding="utf-8")
