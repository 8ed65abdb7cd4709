"""The systemd unit that runs the watch of a cluster. Pure."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_TEMPLATES = Path(__file__).parents[1] / "templates"


def unit_name(cluster: str) -> str:
    """The unit's file name."""
    safe = "".join(char if char.isalnum() or char in "-_." else "_" for char in cluster)
    return f"hallmark-watch-{safe}.service"


def unit(cluster: str, command: Sequence[str], environment: Mapping[str, str], user: str | None, target: str) -> str:
    """The text of the unit; `user`: who it runs as, None in a user's own systemd."""
    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, trim_blocks=True, autoescape=False
    )
    templates.filters |= {"unit_word": word, "unit_quoted": quoted}
    template = templates.get_template("watch.service.j2")
    values = {"cluster": cluster, "command": list(command), "environment": dict(environment)}
    return template.render(**values, user=user, target=target) + "\n"


def quoted(text: str) -> str:
    """A word of a setting: `%`, quotes and spaces stand for themselves."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def word(text: str) -> str:
    """A word of a command, in which `$` would begin a variable."""
    return quoted(text).replace("$", "$$")


def unquoted(text: str) -> str:
    """What `word` made this of, without its quotes."""
    return re.sub(r'\\([\\"])|%(%)|\$(\$)', lambda found: found[found.lastindex or 0], text)
