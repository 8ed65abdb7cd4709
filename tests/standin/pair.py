"""The StandIn in containers on two real engines that are reached over SSH."""

import json
import shutil
from dataclasses import dataclass

from scripts.engines.group import Group
from tests.standin.world import World

PLAIN, PATCHED, COLLAPSED = (f"localhost/standin-{name}:1" for name in ("plain", "greets", "collapses"))


@dataclass(frozen=True)
class Pair:
    """The world's cluster on two real nodes."""

    world: World
    nodes: Group

    @property
    def paths(self) -> dict[str, str]:
        return {"state": str(self.world.node), "models": str(self.world.models)}

    def listed(self) -> list[dict[str, str]]:
        """The nodes as the cluster's file has them."""
        return [
            {"name": name, "address": f"ssh://{node.address}:{node.port}", "fabric": node.address}
            for name, node in zip(("left", "right"), self.nodes.nodes, strict=True)
        ]

    def running(self) -> list[set[str]]:
        """By node, the marks of the containers that run."""
        words = ("ps", "--format", '{{.Label "dev.hallmark.group"}}')
        return [set(engine.docker(*words).stdout.split()) for engine in self.nodes.engines]

    def elsewhere(self, name: str = "other") -> None:
        """What is run from now on is run on a controller that has never seen this cluster; it trusts the same keys."""
        other = self.world.state.with_name(name)
        other.mkdir()
        if (self.world.state / "keys").exists():
            shutil.copytree(self.world.state / "keys", other / "keys")
        self.world.patches.setenv("HALLMARK_STATE", str(other))

    def serves(self, reference: str) -> bool:
        """Whether every node runs this image, and the group answers."""
        wanted = self.nodes.engines[0].docker("image", "inspect", "--format", "{{.Id}}", reference).stdout
        for engine in self.nodes.engines:
            found = json.loads(engine.docker("inspect", *engine.docker("ps", "--quiet").stdout.split()).stdout)
            if [one["Image"] for one in found] != [wanted.strip()]:
                return False
        return self.world.answers()

    def clear(self) -> None:
        """Remove every container of the world's cluster."""
        for engine in self.nodes.engines:
            words = ("ps", "--all", "--quiet", "--filter", "label=dev.hallmark.cluster=pair")
            left = engine.docker(*words).stdout.split()
            if left:
                engine.docker("rm", "--force", *left)
