"""The command audit: patches × releases."""

from collections.abc import Iterator
from pathlib import Path

import click

from launch.cli.context import Context
from launch.cli.given import Given
from recipe.applier.tree import Sources
from recipe.catalogue import audit as judge
from recipe.catalogue import record, released, releases, target
from recipe.catalogue.compile import catalogue
from recipe.catalogue.wheels import Wheel
from recipe.errors import HallmarkError, Mismatch, Problem, Refused

_MARKS = {"pending": "+", "upstreamed": "=", "not-applicable": "."}
_LEGEND = "+ pending   = upstreamed   . not applicable   ~ not applicable, would apply   ! drift"


@click.command()
@click.option("--vllm", "versions", multiple=True, metavar="V", help="only this release (default: all listed ones)")
@click.option("--wheel", "files", multiple=True, type=Given(), help="a wheel of vLLM, also of a release not listed yet")
@click.option("--out", "out", type=Given(), help="write the result in short, as recipe/patches/audit.json holds it")
@click.option("--check", is_flag=True, help="exit 2 on drift, 4 when recipe/patches/audit.json says otherwise")
@click.option("--keep-wheels", is_flag=True, help="keep the wheels that are fetched, not only their sources")
@click.pass_obj
def audit(
    context: Context,
    versions: tuple[str, ...],
    files: tuple[Path, ...],
    out: Path | None,
    check: bool,
    keep_wheels: bool,
) -> None:
    """Say what state every patch has on every release. Changes nothing but --out; may be repeated."""
    patches = catalogue()
    listed = releases.known()
    known = [release.version for release in listed]
    chosen = [releases.find(name) for name in versions] or ([] if files else list(listed))
    with target.translated():
        columns = [
            judge.column(name, sources, patches, known)
            for name, sources in _sources(context, chosen, files, keep_wheels)
        ]
    found = record.make(patches, columns, listed)
    if out is not None:
        out.write_text(found.text(), encoding="utf-8")
    asked = bool(versions or files)
    if check:
        # Only a listed release has a record to be compared with.
        _check(columns, record.load().differences(found) if found.states else [])
    context.emit(
        {
            "releases": {column.name: {id: cell.state for id, cell in column.cells.items()} for column in columns},
            "details": {column.name: {id: cell.to_json() for id, cell in column.cells.items()} for column in columns},
            "together": {column.name: column.together for column in columns},
        },
        lambda: "\n".join(_table(columns) + [line for column in columns for line in _work(column, asked)]),
    )


def _sources(
    context: Context, chosen: list[releases.Release], files: tuple[Path, ...], keep: bool
) -> Iterator[tuple[str, Sources]]:
    for number, release in enumerate(chosen, start=1):
        context.say(f"{release.name} ({number} of {len(chosen)})")
        yield release.name, released.sources(release, keep_wheel=keep)
    for path in files:
        wheel = Wheel(path)
        context.say(path.name)
        name = releases.name(wheel.distribution.replace("_", "-"), wheel.version)
        yield (path.name if name in {release.name for release in releases.known()} else name), wheel


def _check(columns: list[judge.Column], differences: list[str]) -> None:
    drifts = [
        f"{column.name}: {line}"
        for column in columns
        for cell in column.cells.values()
        if cell.state.startswith("drift:")
        for line in cell.reasons()
    ]
    drifts += [f"{column.name}: {line}" for column in columns for line in column.together]
    error: HallmarkError
    if drifts:
        error = Refused("")
    elif differences:
        error = Mismatch("")
    else:
        return
    hint = "hallmark audit --out recipe/patches/audit.json writes it again"
    stale = [Problem(line, "recipe/patches/audit.json", hint) for line in differences]
    error.problems = (*(Problem(line) for line in drifts), *stale)
    raise error


def _table(columns: list[judge.Column]) -> list[str]:
    ids = list(columns[0].cells) if columns else []
    width = max((len(id) for id in ids), default=0)
    lines = [" " * width + "".join(f"  {column.name}" for column in columns)]
    for id in ids:
        cells = (_mark(column.cells[id]).center(len(column.name)) for column in columns)
        lines.append(f"{id:{width}}" + "".join(f"  {cell}" for cell in cells).rstrip())
    return [*lines, "", _LEGEND]


def _mark(cell: judge.Cell) -> str:
    if cell.state == "not-applicable" and cell.widened is not None and cell.widened.state == "pending":
        return "~"
    return _MARKS.get(cell.state, "!")


def _work(column: judge.Column, asked: bool) -> list[str]:
    """What there is to do for a release: drifts always, and for one that was asked for every patch it leaves out."""
    lines = []
    for cell in column.cells.values():
        drifts = cell.state.startswith("drift:") or cell.state == "already-unknown"
        if not drifts and not asked:
            continue
        outside = cell.widened if cell.state == "not-applicable" else None
        if drifts or (outside and outside.state.startswith("drift:")):
            lines += [f"  {'' if drifts else 'outside its range, would drift: '}{line}" for line in cell.reasons()]
        elif outside and outside.state == "pending":
            lines.append(f"  {cell.patch}: outside its range, applies as on {outside.like}: widen `when` after reading")
        elif cell.state == "upstreamed":
            lines.append(f"  {cell.patch}: upstreamed: end its range here, or see its remove-when")
        else:
            lines.append(f"  {cell.patch}: {cell.state}")
    lines += [f"  {line}" for line in column.together]
    return ["", f"{column.name}:", *lines] if lines else []
