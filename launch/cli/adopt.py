"""The command `adopt`: records a group that somebody started by hand."""

import click

from launch.cli.context import Context


@click.command()
@click.argument("cluster")
@click.option("--profile", metavar="P", help="the profile whose gates judge it (default: the cluster's own)")
@click.option("-m", "why", metavar="WHY", help="the reason, for the history")
@click.pass_obj
def adopt(context: Context, cluster: str, profile: str | None, why: str | None) -> None:
    """Record what runs on the nodes of CLUSTER, started by hand, as a revision; nothing that runs is touched.

    May be repeated: what was adopted already is not recorded again.
    """
    from launch.ledger.adopt import adopt as record
    from launch.ledger.work import work

    found = record(work(context.home, cluster, context.say), profile, why)

    def text() -> str:
        done = "is recorded as" if found.changed else "nothing to do: it is"
        lines = [f"{found.plan.subject.reference} {done} revision {found.revision}"]
        for rank in found.plan.ranks:
            assert rank.container is not None
            lines.append(f"  rank {rank.rank} {rank.name}: {rank.container.name}, {rank.container.image}")
        lines += [f"  secret: {it} must be there when a rank has to be made again" for it in found.secrets]
        lines += [f"  note: {it}" for it in found.warnings]
        lines += [f"  differs: {it}" for it in found.differences]
        return "\n".join([*lines, f"  next: hallmark certify {cluster}"])

    context.emit(found.to_json(), text)
