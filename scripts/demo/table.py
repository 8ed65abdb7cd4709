"""The demo's last page: what ran, how long it took, how fast it answered, and what Hallmark itself cost."""

from rich.console import Console
from rich.table import Table

from scripts.demo.story import Row, Story


def show(told: Story) -> None:
    """Print the table, and the two ratios that say whether Hallmark vanishes beside vLLM."""
    table = Table(title="hallmark demo: two vLLM ranks on the CPU, TP=2, n-gram speculation")
    table.add_column("step")
    for name in ("seconds", "ranks' own", "Hallmark's", "tok/s", "acceptance length"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for row in told.rows:
        table.add_row(
            row.what,
            f"{row.seconds:.1f}",
            f"{row.group:.1f}" if row.group else "",
            f"{row.tool:.1f}" if row.moves else "",
            _figure(row.tok_s, 0),
            _figure(row.length, 2),
            row.verdict if row.expected else f"NOT AS IT SHOULD BE: {row.verdict}",
        )
    # Narrower, the columns would be cut to nothing.
    console = Console(width=max(Console().width if Console().is_terminal else 140, 120))
    console.print(table)
    total, group = sum(row.seconds for row in told.rows), sum(row.group for row in told.rows)
    console.print(
        f"all steps {total:.0f} s, the ranks' own starts and stops {group:.0f} s: {total / group:.2f} times; "
        f"setting up before that {told.install:.0f} s"
    )
    good = [row for row in told.rows if row.moves and row.expected]
    console.print("Hallmark's own cost of a launch or rollback: " + ", ".join(_cost(row) for row in good))


def _cost(row: Row) -> str:
    return f"{row.what.partition(':')[0]} {row.tool:.1f} s"


def _figure(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
