"""Lists as plain text in columns, the same on a terminal and in a pipe."""

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> str:
    """The rows with their cells under each other; the first row is the head line."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def printable(text: str) -> str:
    """A text of somebody else as one line that a terminal only shows: control characters as Python writes them."""
    return "".join(it if it.isprintable() else repr(it)[1:-1] for it in text)
