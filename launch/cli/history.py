"""The command `history`: the revisions of a cluster, what each went through, and what changed between two."""

from collections.abc import Iterator
from typing import Any

import click

from launch.cli.context import Context
from launch.ledger.work import work
from recipe.errors import HallmarkError


@click.command()
@click.argument("cluster")
@click.option("--diff", metavar="A B", nargs=2, type=int, help="what changed between two revisions")
@click.option("--journal", metavar="N", type=int, help="what the journal says of one revision")
@click.pass_obj
def history(context: Context, cluster: str, diff: tuple[int, int] | None, journal: int | None) -> None:
    """List the revisions of CLUSTER, compare two, or tell all of one. Changes nothing."""
    if diff is not None and journal is not None:
        raise HallmarkError("one at a time, with --diff", where="--journal", hint="leave one of them out")
    opened = work(context.home, cluster, context.say)
    _, past = opened.look()
    opened.store.compare()
    if diff is not None:
        from launch.ledger.changes import changes, lines
        from launch.ledger.record import record

        found = changes(*(record(opened, past, number) for number in diff))
        context.emit(found.to_json(), lambda: "\n".join(lines(found)))
        return
    revisions = [revision.to_json() for revision in past.revisions.values()]
    if journal is not None:
        if journal not in past.revisions:
            known = ", ".join(map(str, past.revisions)) or "none"
            raise HallmarkError(f"there is no revision {journal}", where="--journal", hint=f"revisions: {known}")
        [entry] = [entry for entry in revisions if entry["number"] == journal]
        context.emit(entry, lambda: "\n".join(_events(entry)))
        return

    def text() -> str:
        lines = [_line(entry, past.running, past.unfinished) for entry in revisions] or [
            f"{cluster} has no history yet"
        ]
        for broken in past.broken:
            held = "; ".join(f"{node}: {owner}" for node, owner in broken["held"].items())
            lines.append(f"     {broken['at'][:19]}  lock broken by {broken['who']}: {held}")
        for entry in past.restarts:
            why = f": {entry['reason'].splitlines()[0]}" if entry.get("reason") else ""
            lines.append(f"     {entry['at'][:19]}  revision {entry['revision']} {entry['event']}{why}")
        return "\n".join(lines)

    context.emit({"revisions": revisions, "broken_locks": past.broken, "restarts": past.restarts}, text)


def _line(entry: dict[str, Any], running: int | None, unfinished: int | None) -> str:
    marks = [entry["state"]]
    if entry["number"] == unfinished:
        marks = [f"unfinished at {entry['state'].upper()}: launch, rollback or stop brings it to an end"]
    marks += [f"restores {entry['restores']}"] if entry["restores"] else []
    marks += ["certified"] if entry["certified"] else []
    marks += ["running"] if entry["number"] == running and unfinished is None else []
    reason = f": {entry['why']}" if entry["why"] else ""
    # What an image holds is not asked here; its name is what was launched.
    what = entry["patchset"][:8] if entry["patchset"] else entry["image"]
    return (
        f"{entry['number']:>3}  {entry['at'][:19]}  {entry['profile']} {what}"
        f"  {', '.join(marks)}  {entry['who']}{reason}"
    )


def _events(entry: dict[str, Any]) -> Iterator[str]:
    yield f"revision {entry['number']}: {entry['profile']} {entry['image']}, by {entry['who']}"
    for event in entry["events"]:
        told = [f"{key} {value}" for key, value in event.items() if key not in ("at", "event", "nodes", "reason")]
        reason = f": {event['reason']}" if event.get("reason") else ""
        yield f"  {event['at'][:23]}  {event['event']:14}  {', '.join(told)}{reason}".rstrip()
        yield from (f"    {line}" for line in event.get("nodes", ()))
