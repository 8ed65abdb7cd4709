"""The command `preflight`: every node checked, with the remedy for what is wrong."""

import click

from launch.cli.columns import columns
from launch.cli.context import Context
from launch.cli.given import Finite
from launch.ledger.work import work
from recipe.errors import Exit


@click.command()
@click.argument("cluster")
@click.option("--profile", metavar="P", help="another profile than the cluster's own")
@click.option(
    "--bandwidth", is_flag=True, help="also measure the fabric with iperf3 and, between GPUs, with nccl-tests"
)
@click.option(
    "--min-gbit",
    type=Finite(min=0, min_open=True),
    metavar="N",
    help="the bar for --bandwidth in Gbit/s (default: a tenth of the interface's speed)",
)
@click.option("--all", "every", is_flag=True, help="show also what passed")
@click.pass_obj
def preflight(
    context: Context, cluster: str, profile: str | None, bandwidth: bool, min_gbit: float | None, every: bool
) -> int:
    """Look at every node of CLUSTER and say what would keep a launch from working. Changes nothing; may be repeated.

    Exit 2 when something fails; warnings are exit 0.
    """
    from launch.ledger.preflight import preflight as look
    from launch.nodes.preflight.site import Verdict

    report = look(
        work(context.home, cluster, context.say), profile, measure=bandwidth or min_gbit is not None, least=min_gbit
    )

    def text() -> str:
        shown = [it for it in report.found if every or it.verdict is not Verdict.PASS]
        rows = [("", "CHECK", "NODE", "FOUND")]
        rows += [(it.verdict.value, it.check, it.node or "all", it.message) for it in shown]
        lines = columns(rows).splitlines() if shown else []
        remedies = [f"  {it.check} on {it.node or 'all'}: {it.hint}" for it in shown if it.hint]
        if remedies:
            lines += ["", "What to do:", *dict.fromkeys(remedies)]
        counts = {kind: sum(it.verdict is kind for it in report.found) for kind in Verdict}
        lines.append(f"{report.cluster}: " + ", ".join(f"{count} {kind.value}" for kind, count in counts.items()))
        return "\n".join(lines)

    context.emit(report.to_json(), text)
    return int(Exit.NOT_DONE if report.verdict is Verdict.FAIL else Exit.OK)
