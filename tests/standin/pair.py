"""The StandIn in containers on two real engines that are reached over SSH."""

import json
import shutil
from dataclasses import dataclass

from scripts.engines.engine import Engine
from scripts.engines.group import Group
from tests.standin.world import World, until

PLAIN, PATCHED, COLLAPSED, HANGING = (
    f"localhost/standin-{name}:1" for name in ("plain", "greets", "collapses", "hangs-at-start")
)


@dataclass(frozen=True)
class Pair:
    """The world's cluster on two real nodes. `here`: the controller's own engine; `state`: the nodes' folder of
    records."""

    world: World
    nodes: Group
    here: Engine
    state: str

    @property
    def paths(self) -> dict[str, str]:
        return {"state": self.state, "models": str(self.world.models)}

    def listed(self) -> list[dict[str, str]]:
        """The nodes as the cluster's file has them."""
        return [
            {
                "name": name,
                "address": f"ssh://{node.address}:{node.port}",
                "fabric": engine.network.fabric if engine.network else node.address,
            }
            for name, node, engine in zip(("left", "right"), self.nodes.nodes, self.nodes.engines, strict=True)
        ]

    def running(self) -> list[set[str]]:
        """By node, the marks of the containers that run."""
        words = ("ps", "--format", '{{.Label "dev.hallmark.group"}}')
        return [set(engine.docker(*words).stdout.split()) for engine in self.nodes.engines]

    def ready(self) -> tuple[str, str]:
        """PLAIN or PATCHED runs, which is given, and then the other one."""
        old, new = (PATCHED, PLAIN) if self.serves(PATCHED) else (PLAIN, PATCHED)
        self.world.done("launch", "pair", "--image", old)
        return old, new

    def lacks(self, image: str) -> None:
        """No node has the image, nor a container of it; it must not run."""
        for engine in self.nodes.engines:
            for name in engine.docker("ps", "--all", "--quiet", "--filter", "status=exited").stdout.split():
                engine.docker("rm", name)
            wanted = self.here.docker("image", "inspect", "--format", "{{.Id}}", image).stdout.strip()
            engine.docker("image", "rm", "--force", wanted, check=False)

    def back(self) -> None:
        """Nodes in networks of their own are reached again."""
        found = [engine.network for engine in self.nodes.engines if engine.network is not None]
        for it in found:
            it.back()
        until(lambda: all(it.linked for it in found))

    def elsewhere(self, name: str = "other") -> None:
        """What is run from now on is run on a controller that has never seen this cluster; it trusts the same keys."""
        other = self.world.state.with_name(name)
        other.mkdir()
        if (self.world.state / "keys").exists():
            shutil.copytree(self.world.state / "keys", other / "keys")
        self.world.patches.setenv("HALLMARK_STATE", str(other))

    def serves(self, reference: str) -> bool:
        """Whether every node runs this image, and the group answers."""
        wanted = self.here.docker("image", "inspect", "--format", "{{.Id}}", reference).stdout
        for engine in self.nodes.engines:
            running = engine.docker("ps", "--quiet").stdout.split()
            found = json.loads(engine.docker("inspect", *running).stdout) if running else []
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
