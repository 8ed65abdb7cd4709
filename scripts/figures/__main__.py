"""`make figures`: measures what docs/figures.md says, on this machine, and writes the page.

Figures are ratios of things timed in one run, because machines are noisy and differ.
"""

import platform
from datetime import UTC, datetime

from recipe.config import paths
from scripts.demo import story, table
from scripts.figures import engine

_PAGE = paths.CHECKOUT / "docs" / "figures.md"


def main() -> int:
    """Measure and write the page; returns 1 when a step of the demo did not go as it should."""
    measured = engine.measure()
    told = story.tell()
    table.show(told)
    moves = [row for row in told.rows if row.moves]
    total, group = sum(row.seconds for row in told.rows), sum(row.group for row in told.rows)
    lines = [
        "# Figures",
        "",
        "<!-- Made by `make figures`; measured, never typed. -->",
        "",
        f"Measured on {datetime.now(UTC).date()} with {platform.machine()}, {_cores()} cores, Python"
        f" {platform.python_version()}.",
        "`make figures` repeats it (about five minutes once vLLM is installed).",
        "",
        "## What Hallmark costs beside vLLM",
        "",
        "Two real vLLM ranks on the CPU (`make demo`). *Ranks' own* is the time in which ranks start or stop; all",
        "other time of the command is Hallmark's: planning, staging, trial gates, records. The goal is 2 s.",
        "",
        "| command | seconds | ranks' own | Hallmark's |",
        "| --- | --- | --- | --- |",
        *(f"| {row.what} | {row.seconds:.1f} | {row.group:.1f} | {row.tool:.1f} |" for row in moves),
        "",
        f"All steps of the demo took {total / group:.2f} times the ranks' own starts and stops (goal: at most 1.3).",
        "",
        "## The patch engine",
        "",
        *_engine(measured),
    ]
    _PAGE.write_text("\n".join(lines), encoding="utf-8")
    print(f"wrote {_PAGE}")
    return 0 if told.as_it_should_be() else 1


def _engine(measured: engine.Measured) -> list[str]:
    """Time, memory and Pythons of the patch engine."""

    def table(rows: list[engine.Figure], unit: str, scale: float) -> list[str]:
        lines = [f"| what | {unit} | ratio | goal |", "| --- | --- | --- | --- |"]
        return lines + [
            f"| {row.what} | {row.value * scale:.1f} | {row.ratio:.2f} × {row.of} | {row.goal} |" for row in rows
        ]

    return [
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
        "",
    ]


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))


raise SystemExit(main())
