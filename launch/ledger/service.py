"""The watch of a cluster as a systemd unit on its head: what is installed, and when that is refused."""

import os
import shlex
import sys
from pathlib import Path

from launch.ledger.work import Work
from launch.nodes.systemd import Manager
from launch.plan.unit import unit, unit_name, unquoted
from recipe.config.load import load_cluster, names
from recipe.errors import Refused

# What decides where Hallmark finds things; a service starts without any of it, in another folder.
_PATHS = ("HALLMARK_STATE", "HALLMARK_CACHE", "HALLMARK_SSH_CONFIG", "DOCKER_CONFIG")
_KEPT = (*_PATHS, "XDG_STATE_HOME", "XDG_CACHE_HOME", "DOCKER_HOST", "PATH", "HOME")


def text(work: Work, manager: Manager) -> str:
    """The unit for this cluster. Errors: Refused where a service could not do its work."""
    head = work.cluster.value.nodes[0]
    if not head.local:
        raise Refused(
            f"the watch runs on the head, and {head.name} ({head.address}) is another machine",
            where=work.cluster.document.where(("nodes",)),
            hint="set Hallmark up there with this cluster's file, in which the head is `local`, and install it there",
        )
    _, past = work.look()
    number = past.unfinished or past.running
    if number is not None:
        unset = sorted(
            reference
            for rank in work.generation(number).plan.ranks
            for reference in rank.secrets.values()
            if reference.startswith("env:")
        )
        if unset:
            hint = "name a file of one line instead, as file:PATH, and launch that"
            raise Refused(f"the group needs the secret {unset[0]}, which a service does not have", hint=hint)
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    for name in _PATHS:
        if environment.get(name):
            environment[name] = str(Path(environment[name]).expanduser().absolute())
    return unit(work.cluster.name, command(work), environment, manager.user, manager.target)


def command(work: Work) -> list[str]:
    """What the unit runs."""
    program = Path(sys.executable).parent / "hallmark"
    return [str(program), "--home", str(work.home.absolute()), "watch", str(work.cluster.path.absolute())]


def install(work: Work, manager: Manager) -> bool:
    """Write and start it; False when nothing had to be changed.

    Errors: Refused, also when another cluster's file of the same name has such a unit.
    """
    name = unit_name(work.cluster.name)
    _not_anothers(manager, name, work.cluster.path)
    return manager.install(name, text(work, manager))


def _not_anothers(manager: Manager, name: str, own: Path) -> None:
    other = _watched(manager.text(name) or "")
    if other is None or not Path(other).is_file() or Path(other).resolve() == own.resolve():
        return
    raise Refused(
        f"{manager.folder / name} watches the cluster of another file: {other}",
        hint=f"`hallmark service remove {shlex.quote(other)}` takes it away, or give one of the files another name",
    )


def _watched(text: str) -> str | None:
    """The cluster file that a unit of ours watches: the last word of its command."""
    for line in text.splitlines():
        if line.startswith("ExecStart="):
            return unquoted(line.rpartition(' "')[2].removesuffix('"'))
    return None


def remove(home: Path, cluster: str, manager: Manager) -> bool:
    """Stop and remove it; the group is left as it is. False when there was none.

    Errors: Refused, also for that of another cluster's file of the same name; ConfigError when there is neither such a
    unit nor such a cluster.
    """
    known = names(home, "clusters").get(cluster)
    path = known or Path(cluster).expanduser()
    name = unit_name(path.name.removesuffix(".yaml"))
    _not_anothers(manager, name, path)
    # Its file may be gone, or have a mistake; the unit can go all the same.
    if manager.remove(name):
        return True
    load_cluster(home, cluster)
    return False
