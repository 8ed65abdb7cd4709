"""Commands on the lock of a cluster."""

import click

from launch.cli.context import Context


@click.group()
def lock() -> None:
    """Who changes a cluster right now."""


@lock.command()
@click.argument("cluster")
@click.pass_obj
def show(context: Context, cluster: str) -> None:
    """Say who holds the lock of CLUSTER, since when and why. Changes nothing."""
    from launch.ledger.work import work
    from launch.nodes.lock import holder

    opened = work(context.home, cluster, context.say)
    found = holder(opened.store.lock)
    context.emit({"cluster": opened.cluster.name, "holder": found}, lambda: found or "nobody holds it")
