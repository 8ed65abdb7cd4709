"""Charts of a certificate as SVG text that takes its colours from the page around it."""

import io
import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from launch.proof.metrics import SpecCounts
from launch.proof.report.view import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Json = dict[str, Any]

# matplotlib knows no CSS variables: these stand for them while it draws.
_COLOURS = {"#010203": "var(--ink)", "#010204": "var(--bar)", "#010205": "var(--faint)", "#010206": "var(--bad)"}
_INK, _NOW, _THEN, _BAR = _COLOURS


def charts(statement: Json, previous: Json | None) -> list[tuple[str, str]]:
    """A title and an SVG element of each chart that a statement has figures for."""
    now, then = _record(statement), _record(previous) if previous else None
    found = []
    rates = _throughput(now)
    if rates:
        found.append(
            ("Tokens per second, one request at a time", _svg(_runs(rates, _throughput(then) if then else [])))
        )
    for name, gate in now["gates"].items():
        earlier = then["gates"].get(name) if then else None
        if positions := _positions(gate):
            low = {int(at): bar for at, bar in (gate["definition"].get("min-per-position") or {}).items()}
            names = [str(at) for at in range(len(positions))]
            drawn = _bars(names, positions, _positions(earlier) if earlier else [], low)
            found.append((f"Accepted / drafts at each draft position ({name})", _svg(drawn)))
        if speeds := _speeds(gate):
            before = _speeds(earlier) if earlier else {}
            bars = {one["name"]: one["min-tok-s"] for one in gate["definition"]["workloads"]}
            low = {at: bars[name] for at, name in enumerate(speeds)}
            then_speeds = [before.get(name, 0.0) for name in speeds] if before else []
            drawn = _bars(list(speeds), list(speeds.values()), then_speeds, low)
            found.append((f"Tokens per second of each kind of text, mean of the runs ({name})", _svg(drawn)))
    return found


def _record(statement: Json) -> Json:
    record: Json = statement["predicate"]["hallmark"]
    return record


def _throughput(record: Json) -> list[float]:
    figure = record["figures"].get("single_stream")
    return [float(run["tok_s"]) for run in figure["runs"]] if figure else []


def _positions(gate: Json) -> list[float]:
    raw = gate["raw"]
    if gate["definition"]["kind"] != "acceptance" or not raw.get("before") or not raw.get("after"):
        return []
    before, after = (_counts(raw[moment]) for moment in ("before", "after"))
    return list(after.since(before).position_rates)


def _speeds(gate: Json) -> dict[str, float]:
    """The mean tok/s of each workload."""
    runs = gate["raw"].get("runs")
    if gate["definition"]["kind"] != "throughput" or not runs:
        return {}
    return {name: fmean(run[name]["own_tokens"] / run[name]["seconds"] for run in runs) for name in runs[0]}


def _counts(raw: Json) -> SpecCounts:
    return SpecCounts(raw["drafts"], raw["draft_tokens"], raw["accepted"], tuple(raw["per_position"]))


def _runs(now: Sequence[float], then: Sequence[float]) -> "Figure":
    figure, axes = _figure()
    for place, (label, values, colour) in enumerate((("now", now, _NOW), ("before", then, _THEN))):
        if values:
            axes.barh([place], [sorted(values)[len(values) // 2]], color=colour, height=0.5)
            axes.plot(values, [place] * len(values), "|", color=_INK, markersize=14)
            axes.annotate(label, (0, place - 0.3), color=_INK, fontsize=9)
    axes.set_yticks([])
    axes.set_ylim(1.5 if then else 0.5, -0.5)
    axes.set_xlim(0, max([*now, *then]) * 1.1)
    axes.set_xlabel("tok/s: median, and every run as a mark")
    return figure


def _bars(names: Sequence[str], now: Sequence[float], then: Sequence[float], bars: Mapping[int, float]) -> "Figure":
    """Bars side by side; `bars`: the lowest that passes, by place."""
    figure, axes = _figure()
    width = 0.4 if then else 0.7
    for shift, label, values, colour in ((-0.2 if then else 0, "now", now, _NOW), (0.2, "before", then, _THEN)):
        if values:
            drawn = axes.bar([index + shift for index in range(len(values))], values, width, color=colour, label=label)
            axes.bar_label(drawn, [number(value) for value in values], fontsize=8, color=_INK)
    for place, low in bars.items():
        axes.hlines(low, place - 0.45, place + 0.45, color=_BAR, label="bar")
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(
        unique.values(), unique.keys(), loc="outside upper right", ncols=3, frameon=False, labelcolor=_INK, fontsize=8
    )
    axes.set_xticks(range(len(names)), names)
    axes.set_ylim(0, max([*now, *then, *bars.values()]) * 1.15)
    return figure


def _figure() -> "tuple[Figure, Any]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_INK)
    axes.tick_params(colors=_INK)
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    return figure, axes


def _svg(figure: "Figure") -> str:
    import matplotlib

    out = io.StringIO()
    # Text stays text, and the ids in an SVG are random otherwise.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hallmark", "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    for colour, variable in _COLOURS.items():
        text = text.replace(colour, variable)
    element = text[text.index("<svg") :]
    # What matplotlib says about itself names addresses, and a page without a network should not even seem to need one.
    return re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
