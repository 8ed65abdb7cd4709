"""The report as one HTML file that needs nothing else: no script, no font, no address that is fetched."""

from pathlib import Path
from typing import Any

from launch.proof.report.charts import charts
from launch.proof.report.material import Material
from launch.proof.report.view import view

_TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
# The first line of every report, by which a later one knows that it may take the file's place.
MARK = "<!-- made by hallmark report -->"
# Figures, patches and facts of the nodes are free in a statement, so that anything may stand there.
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)


def page(material: Material) -> str:
    """The whole file's text.

    Errors: ValueError when the certificate has no readable statement, or holds what none of ours does.
    """
    found = material.found
    if found.statement is None or not found.gates:
        raise ValueError(found.reasons[0] if found.reasons else "it has no gates")
    try:
        return _page(material, found.statement)
    except _UNREADABLE as error:
        raise ValueError(f"it holds what no certificate of Hallmark does ({type(error).__name__}: {error})") from None


def _page(material: Material, statement: dict[str, Any]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    shown = view(material)
    previous = material.previous
    drawn = charts(statement, previous.statement if previous and previous.gates else None)
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html.j2")
    return template.render(**shown, mark=Markup(MARK), charts=[(title, Markup(svg)) for title, svg in drawn])
