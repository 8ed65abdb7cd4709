"""Commands on model files: fetch, sync, check."""

import click

from launch.cli.context import Context
from launch.cli.progress import bars
from recipe.errors import Exit


@click.group()
def model() -> None:
    """The model's files on the nodes."""


@model.command()
@click.argument("cluster")
@click.option("--profile", metavar="P", help="another profile than the cluster's own")
@click.option("--dry-run", is_flag=True, help="say how much there is to fetch, and fetch nothing")
@click.pass_obj
def fetch(context: Context, cluster: str, profile: str | None, dry_run: bool) -> None:
    """Fetch the pinned revision of the model onto the head of CLUSTER. Run again, it goes on where it stopped."""
    from launch.ledger import model as ledger

    opened = ledger.models(context.home, cluster, profile, context.say)
    with bars(context.say, "bytes") as shown:
        done = ledger.fetch(opened, context.say, shown, dry=dry_run)
    said = "nothing to do" if not done.changed else "would be fetched" if dry_run else "fetched and verified"
    context.emit(done.to_json(), lambda: f"{said}: {done.folder}, revision {str(done.revision)[:12]}")


@model.command()
@click.argument("cluster")
@click.option("--profile", metavar="P", help="another profile than the cluster's own")
@click.pass_obj
def sync(context: Context, cluster: str, profile: str | None) -> None:
    """Bring the head's model files to the other nodes of CLUSTER. Run again, it goes on where it stopped."""
    from launch.ledger import model as ledger

    opened = ledger.models(context.home, cluster, profile, context.say)
    with bars(context.say, "bytes") as shown:
        done = ledger.sync(opened, context.say, shown)
    said = "brought and verified" if done.changed else "nothing to do"
    context.emit(done.to_json(), lambda: f"{said}: {done.folder} on {', '.join(done.nodes) or 'no other node'}")


@model.command()
@click.argument("cluster")
@click.option("--profile", metavar="P", help="another profile than the cluster's own")
@click.option("--hashes", is_flag=True, help="also compare every byte; reads all files on every node")
@click.pass_obj
def check(context: Context, cluster: str, profile: str | None, hashes: bool) -> int:
    """Say whether every node of CLUSTER has the whole model, and the same one; exit 2 when not. Changes nothing."""
    from launch.ledger import model as ledger
    from launch.plan.model import to_json

    opened = ledger.models(context.home, cluster, profile, context.say)
    seen, wrong, notes = ledger.check(opened, hashes=hashes)
    document = {
        "valid": not wrong,
        "nodes": [to_json(one) for one in seen],
        "problems": [str(problem) for problem in wrong],
        "notes": notes,
    }

    def text() -> str:
        lines = [
            f"{it['node']}: {it['folder']}, {it['files']} files, {it['bytes'] / 1e9:.1f} GB"
            for it in map(to_json, seen)
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in notes), *map(str, wrong)])

    context.emit(document, text)
    return int(Exit.NOT_DONE if wrong else Exit.OK)
