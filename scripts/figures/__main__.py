"""`make figures`: measures what docs/figures.md says, on this machine, and writes the page.

`python -m scripts.figures anchors` measures one section and leaves the others as they are. Figures are ratios of
things timed in one run, because machines are noisy and differ.
"""

import os
import platform
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from recipe.config import paths
from recipe.errors import HallmarkError
from scripts.demo import story, table
from scripts.figures import anchors, asking, engine, update

_PAGE = paths.CHECKOUT / "docs" / "figures.md"
_HEAD = """\
# Figures

<!-- Made by `make figures`; measured, never typed. -->

`make figures` repeats all of it, `python -m scripts.figures NAME` one section: {names}. Each says when and on what it
was measured.
"""


def main(arguments: list[str]) -> int:
    """Measure the sections that are named, by default all, and write the page; returns the exit status."""
    if unknown := set(arguments) - set(_SECTIONS):
        print(f"there is no section {', '.join(sorted(unknown))}; one of {', '.join(_SECTIONS)}", file=sys.stderr)
        return 1
    before = dict(zip(_SECTIONS, _written(), strict=False))
    parts = [_HEAD.format(names=", ".join(f"`{name}`" for name in _SECTIONS))]
    try:
        for name, measure in _SECTIONS.items():
            wanted = not arguments or name in arguments
            parts.append("\n".join([*measure(), ""]) if wanted else before.get(name, ""))
    except HallmarkError as error:
        print(error, file=sys.stderr)
        return int(error.exit)
    _PAGE.write_text("\n\n".join(part.strip("\n") for part in parts if part) + "\n", encoding="utf-8")
    print(f"wrote {_PAGE}")
    return 0


def _written() -> list[str]:
    """The sections that the page has, in its order."""
    text = _PAGE.read_text(encoding="utf-8") if _PAGE.is_file() else ""
    return [f"## {part}" for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]


def _demo() -> list[str]:
    told = story.tell()
    table.show(told)
    if not told.as_it_should_be():
        raise HallmarkError("a step of the demo did not go as it should, so nothing was written")
    moves = [row for row in told.rows if row.moves]
    total, group = sum(row.seconds for row in told.rows), sum(row.group for row in told.rows)
    return [
        "## What Hallmark costs beside vLLM",
        "",
        _measured(),
        "Two real vLLM ranks on the CPU (`make demo`). *Ranks' own* is the time in which ranks start or stop; all",
        "other time of the command is Hallmark's: planning, staging, trial gates, records. The goal is 2 s.",
        "",
        "| command | seconds | ranks' own | Hallmark's |",
        "| --- | --- | --- | --- |",
        *(f"| {row.what} | {row.seconds:.1f} | {row.group:.1f} | {row.tool:.1f} |" for row in moves),
        "",
        f"All steps of the demo took {total / group:.2f} times the ranks' own starts and stops (goal: at most 1.3).",
        "",
        *(line for row in moves if row.outage is not None for line in _outage(row)),
    ]


def _outage(row: story.Row) -> list[str]:
    assert row.outage is not None
    return [
        f"Somebody who asked for one token all the time got no answer for {row.outage:.1f} s during *{row.what}*, from",
        f"the last answer to the next; the ranks' own stop and start in it took {row.group:.1f} s, so"
        f" {row.outage - row.group:+.1f} s",
        "come on top (goal: at most +2; negative when the new group answers before it is known to be ready).",
    ]


def _engine() -> list[str]:
    """Time, memory and Pythons of the patch engine."""
    measured = engine.measure()

    def table(rows: list[engine.Figure], unit: str, scale: float) -> list[str]:
        lines = [f"| what | {unit} | ratio | goal |", "| --- | --- | --- | --- |"]
        return lines + [
            f"| {row.what} | {row.value * scale:.1f} | {row.ratio:.2f} × {row.of} | {row.goal} |" for row in rows
        ]

    return [
        "## The patch engine",
        "",
        _measured(),
        f"The whole catalogue, {measured.edits} edits in {measured.files} files that are there, on the sources of vLLM"
        f" {engine.VERSION}; medians of several",
        "runs: the processor's time for work in one process, the clock's for whole processes.",
        "",
        *table(measured.times, "milliseconds", 1000),
        "",
        "Peak of resident memory:",
        "",
        *table(measured.memory, "MiB", 1),
        "",
        f"The applier is one file of {measured.archive / 1000:.0f} kB. It made this plan on Python"
        f" {', '.join(measured.pythons)}.",
    ]


def _anchors() -> list[str]:
    studies = [anchors.measure(pair) for pair in anchors.PAIRS]
    return ["## Do anchors find their places again?", "", _measured(), *anchors.lines(studies)]


def _update() -> list[str]:
    found = update.measure()
    return [
        "## Bringing new patches to a node",
        "",
        _measured(),
        f"The whole catalogue, {found.patches} patches, in an image of {found.image / 1e6:.0f} MB with the sources of"
        f" vLLM {update.RELEASE};",
        "`docker save` sends all of an image each time, so the ratio grows with the base. Two engines of this machine,",
        "the second behind an sshd on loopback; that node already has an image with one patch less from here. Medians.",
        "",
        "| way | bytes | seconds | goal |",
        "| --- | --- | --- | --- |",
        f"| launch's staging | {found.sent / 1000:.0f} kB | {found.seconds:.2f} | below 400 kB and 2 s |",
        f"| `docker save` through `ssh docker load` | {found.archive / 1000:.0f} kB | {found.archive_seconds:.2f} |  |",
        "",
        f"Staging sends {found.archive / found.sent:.0f} times less, in"
        f" {found.seconds / found.archive_seconds:.2f} times the time. RECORD, vLLM's list of its files, is"
        f" {found.record:.0%} of the layer.",
    ]


def _asking() -> list[str]:
    """The processor's time of one look at a rank, on both sides."""
    found = asking.measure()
    rows = (
        ("a bare `ssh host true`", found.bare, None),
        ("one look at a rank, over the connection that a command keeps", found.look, found.bare),
        ("all that `preflight` and `launch` ask of a node in one go, but its docker", found.preflight, found.bare),
    )

    def of(cost: asking.Cost, base: asking.Cost | None) -> str:
        pairs = [(cost.controller, base and base.controller), (cost.node, base and base.node)]
        ratios = [f" ({value / other:.2f} ×)" if isinstance(other, float) else "" for value, other in pairs]
        return " | ".join(f"{value * 1000:.1f}{ratio}" for (value, _), ratio in zip(pairs, ratios, strict=True))

    return [
        "## What asking a node costs",
        "",
        _measured(),
        "Milliseconds of the processor's time, medians of five runs in turns: of this machine (all programs that are",
        "started for it) and of the node (its sshd and what that runs). The goal is a quarter of the bare command.",
        "While a group starts each node is looked at so once a second, at most 16 nodes at the same time. What is",
        "asked of a node before a launch takes some twenty small programs, so it does not reach the goal; a node with",
        "an engine and GPUs runs docker's program three times and nvidia-smi twice in addition. Commands that ask the",
        "engine itself, as `status` does, cost what its docker program takes.",
        "",
        "| what | this machine | the node |",
        "| --- | --- | --- |",
        *(f"| {what} | {of(cost, base)} |" for what, cost, base in rows),
    ]


def _measured() -> str:
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
    return f"Measured on {datetime.now(UTC).date()} with {machine}."


_SECTIONS: dict[str, Callable[[], list[str]]] = {
    "demo": _demo,
    "engine": _engine,
    "anchors": _anchors,
    "update": _update,
    "asking": _asking,
}

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
