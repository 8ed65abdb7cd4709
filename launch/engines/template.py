"""Fills the templates of launch/templates; a name that is not given is an error, and so is a wrong one."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_FOLDER = Path(__file__).resolve().parents[1] / "templates"


def render(name: str, **values: object) -> str:
    """The template with these values, which are already quoted for its format."""
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_FOLDER),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
