"""Commands on the lock of a cluster."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from launch.cli.context import Context
from recipe.errors import Refused

if TYPE_CHECKING:
    from launch.nodes.lock import Owner


@click.group()
def lock() -> None:
    """Who changes a cluster right now."""


@lock.command()
@click.argument("cluster")
@click.pass_obj
def show(context: Context, cluster: str) -> None:
    """Say who holds the lock of CLUSTER on which node, since when and why. Changes nothing."""
    from launch.ledger.work import work

    opened = work(context.home, cluster, context.say)
    owners = opened.store.lock.owners()
    context.emit(
        {"cluster": opened.cluster.name, **_document(owners)},
        lambda: "\n".join(_told(owners)) or "nobody holds it",
    )


@lock.command("break")
@click.argument("cluster")
@click.option("--yes", is_flag=True, help="do not ask")
@click.pass_obj
def break_(context: Context, cluster: str, yes: bool) -> None:
    """Take the lock of CLUSTER from whoever holds it; history shows that. Breaking what nobody holds changes nothing.

    For a command whose machine is gone. One that goes on nevertheless notices at its next step, and ends.
    """
    from launch.ledger.unlock import break_ as take_away
    from launch.ledger.work import work

    opened = work(context.home, cluster, context.say)
    owners = opened.store.lock.owners()
    if owners and not yes:
        for line in _told(owners):
            context.say(line)
        if not click.confirm("break it?", err=True):
            raise Refused("nothing was changed")
    if owners:
        take_away(opened, owners)
    context.emit(
        {"cluster": opened.cluster.name, "broken": _document(owners)["nodes"]},
        lambda: "\n".join(f"broken: {line}" for line in _told(owners)) or "nothing to do: nobody holds it",
    )


def _document(owners: "Mapping[str, Owner]") -> dict[str, Any]:
    held = [owner for owner in owners.values() if owner.alive is not False]
    nodes = [
        {"node": node, "who": owner.who, "pid": owner.pid, "since": owner.since, "why": owner.why, "alive": owner.alive}
        for node, owner in owners.items()
    ]
    return {"holder": str(held[0]) if held else None, "nodes": nodes}


def _told(owners: "Mapping[str, Owner]") -> list[str]:
    words = {True: "runs here", False: "is gone, so the next command takes the lock", None: "is of another machine"}
    return [f"{node}: {owner} — that process {words[owner.alive]}" for node, owner in owners.items()]
