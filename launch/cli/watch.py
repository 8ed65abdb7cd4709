"""Commands that keep a group up: watch, and the service that runs it."""

import signal
from types import FrameType

import click

from launch.cli.context import Context
from launch.cli.given import Finite
from launch.ledger.work import work

_DAY = 86400.0


@click.command()
@click.argument("cluster")
@click.option("--every", type=Finite(min=0.1, max=_DAY), default=10.0, show_default=True, help="seconds between looks")
@click.option("--limit", type=click.IntRange(min=1), default=5, show_default=True, help="restarts in an hour")
@click.option("--wait", type=Finite(min=0, max=_DAY), default=10.0, show_default=True, help="seconds before the second")
@click.pass_obj
def watch(context: Context, cluster: str, every: float, limit: int, wait: float) -> None:
    """Ask the group of CLUSTER for a token again and again, and start all of it anew when it is lost.

    Runs until it is interrupted, which leaves the group as it is. It waits while another command works, and after a
    `stop`. When so many restarts did not help it ends with status 3.
    """
    from launch.group.backoff import Backoff
    from launch.ledger.watch import Watch

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    # A name or mistake that will not mend itself ends it at once.
    work(context.home, cluster, context.say)
    found = Watch(
        lambda: work(context.home, cluster, context.say), context.say, every, Backoff(limit=limit, first=wait)
    )
    try:
        found.run()
    except KeyboardInterrupt:
        context.emit(
            {"cluster": cluster, "restarts": found.restarts},
            lambda: f"the watch ends after {found.restarts} restarts; the group is left as it is",
        )


@click.group()
def service() -> None:
    """The watch of a cluster as a systemd unit on its head."""


@service.command()
@click.argument("cluster")
@click.option("--dry-run", is_flag=True, help="print the unit, and change nothing")
@click.pass_obj
def install(context: Context, cluster: str, dry_run: bool) -> None:
    """Write, enable and start the unit that watches CLUSTER; it is back after a reboot. May be repeated."""
    from launch.ledger import service as ledger
    from launch.nodes.systemd import manager
    from launch.plan.unit import unit_name

    opened, found = work(context.home, cluster, context.say), manager()
    name = unit_name(opened.cluster.name)
    text = ledger.text(opened, found)
    if dry_run:
        context.emit({"unit": name, "text": text}, lambda: text.rstrip("\n"))
        return
    changed = ledger.install(opened, found)
    if not found.lingers():
        context.say("note: it ends when you log out; `loginctl enable-linger` keeps it, also after a reboot")
    context.emit(
        {"unit": name, "file": str(found.folder / name), "changed": changed},
        lambda: f"{found.folder / name} runs" if changed else f"nothing to do: {found.folder / name} is there and runs",
    )


@service.command()
@click.argument("cluster")
@click.pass_obj
def remove(context: Context, cluster: str) -> None:
    """Stop and remove the unit that watches CLUSTER; the group is left as it is. May be repeated."""
    from launch.ledger import service as ledger
    from launch.nodes.systemd import manager

    changed = ledger.remove(context.home, cluster, manager())
    context.emit(
        {"cluster": cluster, "changed": changed},
        lambda: "removed" if changed else "nothing to do: there is no such unit",
    )
