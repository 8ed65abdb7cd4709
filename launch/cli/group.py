"""Commands on a cluster's group: launch, status, logs, stop, certify, rollback."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from launch.cli.context import Context, visible
from launch.cli.progress import bars
from launch.ledger.work import work
from recipe.errors import Exit, HallmarkError, Refused

if TYPE_CHECKING:
    from launch.ledger.status import RankNow


@click.command()
@click.argument("cluster")
@click.option("--profile", metavar="P", help="another profile than the cluster's own")
@click.option("--image", metavar="REF", help="another image than the one that `hallmark image` names")
@click.option("-m", "why", metavar="WHY", help="the reason, for the history")
@click.option("--dry-run", is_flag=True, help="say what would be launched, and change nothing")
@click.pass_obj
def launch(
    context: Context, cluster: str, profile: str | None, image: str | None, why: str | None, dry_run: bool
) -> None:
    """Bring up CLUSTER: stop the old group, start the new one, prove it, or bring the old one back.

    May be repeated: what runs already and answers is left alone.
    """
    from launch.ledger import launch as ledger

    if dry_run:
        plan = ledger.rehearse(work(context.home, cluster, context.say), profile, why, image)
        context.emit(plan.to_json(), lambda: f"would launch {plan.profile}, patch set {plan.subject.key}")
        return
    with _interruptible(), bars(context.say, "layers") as shown:
        opened = work(context.home, cluster, context.say, shown)
        outcome = ledger.launch(opened, profile, why, image)
    context.emit(outcome.to_json(), lambda: _launched(outcome))


@click.command()
@click.argument("cluster")
@click.option("--to", metavar="REVISION|DIGEST|TAG", help="default: the last certified revision that does not run")
@click.option("-m", "why", metavar="WHY", help="the reason, for the history")
@click.option("--dry-run", is_flag=True, help="make every check, say what would be brought back, and change nothing")
@click.pass_obj
def rollback(context: Context, cluster: str, to: str | None, why: str | None, dry_run: bool) -> None:
    """Launch an earlier certified revision of CLUSTER; its certificate is verified before anything is touched.

    A second rollback without --to goes forth again, to what the first one left.
    """
    from launch.ledger import launch as ledger

    if dry_run:
        wanted = ledger.rehearse_rollback(work(context.home, cluster, context.say), to, why)
        context.emit(
            {**wanted.plan.to_json(), "restores": wanted.restores},
            lambda: f"would bring back revision {wanted.restores}: {wanted.plan.profile}, {wanted.plan.subject.key}",
        )
        return
    with _interruptible(), bars(context.say, "layers") as shown:
        opened = work(context.home, cluster, context.say, shown)
        outcome = ledger.rollback(opened, to, why)
    context.emit(outcome.to_json(), lambda: _launched(outcome))


@click.command()
@click.argument("cluster")
@click.pass_obj
def status(context: Context, cluster: str) -> int:
    """Say what runs on CLUSTER, rank by rank, and whether it answers. Changes nothing; exit 2 unless it runs."""
    from launch.ledger.status import status as look

    found = look(work(context.home, cluster, context.say))

    def text() -> str:
        answers = "is busy, and answers" if found.busy else "answers"
        answers = answers if found.ready else f"does not answer: {found.missing}"
        lines = [f"{found.cluster}: {found.state}"]
        if found.revision is not None:
            lines[0] += f", revision {found.revision}, {answers}"
            lines.append(f"  {found.image}")
        for rank in found.ranks:
            lines.append(f"  rank {rank.rank} {rank.name}: {_rank(rank)}")
            lines += [f"    drift: {line}" for line in rank.drift]
        return "\n".join(lines)

    context.emit(found.to_json(), text)
    return int(Exit.OK if found.state == "running" else Exit.NOT_DONE)


@click.command()
@click.argument("cluster")
@click.option("--node", metavar="N", help="only this node")
@click.option("--lines", type=click.IntRange(min=1), default=200, show_default=True, help="the last lines of each rank")
@click.option("-f", "--follow", is_flag=True, help="and then what they write, until Ctrl-C or their end")
@click.pass_obj
def logs(context: Context, cluster: str, node: str | None, lines: int, follow: bool) -> None:
    """Print what the ranks of CLUSTER wrote since they were started. Changes nothing."""
    from launch.group.follow import follow as listen
    from launch.ledger.judge import rank_logs
    from launch.plan.logs import colourless

    opened = work(context.home, cluster, context.say)
    _, past = opened.look()
    number = past.unfinished or past.running or max(past.revisions, default=None)
    if number is None:
        raise HallmarkError(f"{cluster} has no history, so there are no logs", hint=f"hallmark launch {cluster}")
    generation = opened.generation(number)
    names = [rank.name for rank in generation.plan.ranks]
    if node is not None and node not in names:
        raise HallmarkError(f"there is no node {node!r}", where="--node", hint=f"one of {', '.join(names)}")
    if follow:
        if context.json:
            raise HallmarkError("a document has an end, and this has none", where="--follow", hint="leave --json out")
        sources = opened.engine.follow(generation.plan, generation.mark, generation.logs, lines)
        chosen = {name: source for name, source in sources.items() if node in (None, name)}
        if not chosen:
            where = f"on {node}" if node else "on any node"
            raise Refused(f"there is no log of revision {number} {where}", hint=f"hallmark status {cluster}")
        listen(chosen, lambda name, line: click.echo(visible(f"{name}: {colourless(line)}")))
        return
    found = rank_logs(opened.engine, generation)
    shown = {log.node: log.text.splitlines()[-lines:] for log in found if node in (None, log.node)}
    context.emit(
        {"revision": number, "logs": shown},
        lambda: "\n".join(f"{name}: {colourless(line)}" for name, text in shown.items() for line in text),
    )


@click.command()
@click.argument("cluster")
@click.pass_obj
def stop(context: Context, cluster: str) -> None:
    """Stop all ranks of CLUSTER. Stopping what does not run changes nothing."""
    from launch.ledger.launch import stop as halt

    opened = work(context.home, cluster, context.say)
    with _interruptible():
        stopped = halt(opened)
    done = f"stopped revision {', '.join(map(str, stopped))}" if stopped else "nothing to do: nothing runs"
    context.emit({"cluster": opened.cluster.name, "stopped": stopped}, lambda: done)


@click.command()
@click.argument("cluster")
@click.option("--key", metavar="NAME", help="the key to sign with (default: the only one there is)")
@click.option(
    "--expires", metavar="DAYS|DATE|never", help="until when it counts (default: gates.expires of the profile)"
)
@click.pass_obj
def certify(context: Context, cluster: str, key: str | None, expires: str | None) -> None:
    """Run the full gates on the running group of CLUSTER and sign the result; the group is never changed."""
    from launch.ledger.certify import certify as prove

    found = prove(work(context.home, cluster, context.say), key, expires)

    def text() -> str:
        lines = [f"revision {found.revision} is certified: sha256:{found.digest}", f"  {found.path}"]
        if found.attached is not None:
            lines += [f"  attached to {found.attached}", f"  {found.tag} names it now"]
        if found.expires is not None:
            lines.append(f"  counts until {found.expires:%Y-%m-%d %H:%M} UTC")
        return "\n".join(lines)

    context.emit(found.to_json(), text)


def _rank(rank: "RankNow") -> str:
    if not rank.reached:
        return f"not reached: {rank.why}"
    if not rank.alive:
        return f"not alive{f': {rank.why}' if rank.why else ''}"
    return rank.held or "alive"


def _launched(outcome: object) -> str:
    from launch.ledger.launch import Outcome

    assert isinstance(outcome, Outcome)
    silent = "" if outcome.outage is None else f", nothing answered for {outcome.outage:.1f} s"
    return (
        f"revision {outcome.revision} runs{silent}; Hallmark's own cost {outcome.tool_seconds:.1f} s\n"
        f"  {outcome.url}  model {outcome.plan.model_name}\n  {outcome.curl}"
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does: with the old group back.

    Under nohup SIGHUP stays ignored. Errors: Refused for an interruption of what needs no restoring.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ends = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in ends}
    try:
        yield
    except KeyboardInterrupt:
        raise Refused("interrupted", hint="`hallmark status` says what runs") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
