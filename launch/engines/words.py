"""How formats write a text so that their own readers give back exactly that text.

`home`: the text is a folder's name, in which `~` at the beginning becomes the format's word for the home folder.
"""

import re
import shlex

import yaml

_PLAIN = re.compile(r"[A-Za-z_/-][A-Za-z0-9_/.@-]*")


def shell(text: str, *, home: bool) -> str:
    """One word of a POSIX shell."""
    home, rest = _split(text, home)
    return ('"$HOME"' if home else "") + (shlex.quote(rest) if rest or not home else "")


def compose(text: str, *, home: bool = False) -> str:
    """A value of a Compose file, where `$` begins a variable."""
    home, rest = _split(text, home)
    return ("${HOME}" if home else "") + rest.replace("$", "$$")


def kubernetes(text: str) -> str:
    """An argument or a variable's value of a container of Kubernetes, where `$(NAME)` is a variable."""
    return text.replace("$", "$$")


def systemd(text: str, *, command: bool, home: bool) -> str:
    """One quoted word of a unit; `command`: of ExecStart, where also `$` begins a variable."""
    home, rest = _split(text, home)
    rest = rest.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    rest = re.sub(r"[\x01-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}", rest)
    if command:
        rest = rest.replace("$", "$$")
    return f'"{"%h" if home else ""}{rest}"'


def document(content: object) -> str:
    """A YAML document. What only looks like a number or a truth value to some reader is quoted."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Readers of YAML 1.1 and 1.2 take different texts for numbers; one that begins like this is none to either.
    style = "|" if "\n" in text else None if _PLAIN.fullmatch(text) and text not in ("-", "---") else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _split(text: str, home: bool) -> tuple[bool, str]:
    """Whether the text begins with the home folder, and what is behind that (launch.plan.group.at_home)."""
    home = home and (text == "~" or text.startswith("~/"))
    return home, text[1:] if home else text
