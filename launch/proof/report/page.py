"""The report as one HTML file that needs nothing else: no script, no font, no address that is fetched."""

from pathlib import Path

from launch.proof.report.charts import charts
from launch.proof.report.material import Material
from launch.proof.report.view import view

_TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
# The first line of every report, by which a later one knows that it may take the file's place.
MARK = "<!-- made by hallmark report -->"


def page(material: Material) -> str:
    """The whole file's text. Errors: ValueError when the certificate has no readable statement."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    shown = view(material)
    statement = material.found.statement
    assert statement is not None, "view refuses a certificate without one"
    drawn = charts(statement, material.previous.statement if material.previous else None)
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html.j2")
    return template.render(**shown, mark=Markup(MARK), charts=[(title, Markup(svg)) for title, svg in drawn])
