"""Tells people why a group did not start: whose error came first, its lines, and the remedy when it is known."""

from collections.abc import Sequence
from pathlib import Path

from launch.plan.cause import first
from launch.plan.known_errors import explain
from launch.plan.logs import RankLog, lines
from recipe.config.known_errors import KnownError

_WIDTH = 400


def why(logs: Sequence[RankLog], known: Sequence[KnownError], folder: Path) -> str:
    """Indented lines for behind a message; where no log has an error, the last line of each."""
    cause = first(logs)
    if cause is None:
        last = [(log.node, lines(log.text)) for log in logs]
        told = [f"{node} wrote last: {text[-1].strip()[:_WIDTH]}" for node, text in last if text]
        # A warning that is known, as those of NCCL, is a cause where there is no better one.
        told += [str(it) for it in explain(logs, known)[:1]]
        return "".join(f"\n  {line}" for line in [*told, f"(logs in {folder})"])
    told = [f"the first error is of rank {cause.rank} ({cause.node}){f' at {cause.at}' if cause.at else ''}:"]
    told += [f"  {line.strip()[:_WIDTH]}" for line in cause.lines]
    own = RankLog(cause.node, cause.rank, "\n".join(cause.lines))
    # The error's own line counts first; a cause that vLLM told before it may stand anywhere.
    meant = explain([own], known) or explain(logs, known)
    told += [f"{meant[0].error.means} — {meant[0].error.remedy}"] if meant else []
    told.append(f"({folder / f'{cause.node}.log'})")
    return "".join(f"\n  {line}" for line in told)
