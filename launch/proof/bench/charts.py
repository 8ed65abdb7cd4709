"""Charts of a benchmark, as PNG and as SVG. The same result gives the same SVG."""

from pathlib import Path
from typing import TYPE_CHECKING

from launch.proof.bench.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write(result: Result, folder: Path) -> list[Path]:
    """Write the charts that this result has figures for into `folder`; returns the files."""
    import matplotlib

    matplotlib.use("Agg")
    # The ids in an SVG are random otherwise.
    matplotlib.rcParams["svg.hashsalt"] = "hallmark"
    written = []
    if any(prompt.tok_s is not None for prompt in result.prompts):
        written += _save(_throughput(result), folder / f"{result.preset}-throughput")
    if result.spec is not None and result.spec.position_rates:
        written += _save(_positions(result), folder / f"{result.preset}-acceptance")
    return written


def _throughput(result: Result) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    names = [prompt.name for prompt in result.prompts]
    series = [("here", [prompt.tok_s or 0 for prompt in result.prompts])]
    series += [(column.title, [column.figures.get(name, 0) for name in names]) for column in result.published]
    width = 0.8 / len(series)
    for number, (title, values) in enumerate(series):
        places = [index + (number - (len(series) - 1) / 2) * width for index in range(len(names))]
        bars = axes.bar(places, values, width, label=title)
        axes.bar_label(bars, [f"{value:.0f}" if value else "" for value in values], fontsize=7)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("tokens per second, one request at a time")
    axes.set_title(f"{result.model}: {result.preset}")
    axes.legend(fontsize=8)
    return figure


def _positions(result: Result) -> "Figure":
    from matplotlib.figure import Figure

    assert result.spec is not None
    rates = result.spec.position_rates
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    bars = axes.bar(range(len(rates)), rates)
    axes.bar_label(bars, fmt="%.2f", fontsize=8)
    axes.set_xticks(range(len(rates)))
    axes.set_ylim(0, 1.1)
    axes.set_xlabel("draft position")
    axes.set_ylabel("accepted / drafts")
    axes.set_title(f"{result.model}: mean acceptance length {result.spec.mean_length:.2f}")
    return figure


def _save(figure: "Figure", stem: Path) -> list[Path]:
    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    figure.savefig(png, dpi=150)
    figure.savefig(svg, metadata={"Date": None})
    return [png, svg]
