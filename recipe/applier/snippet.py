"""Code that a patch brings: parsing it, and laying it out at the place where it goes."""

from __future__ import annotations

import ast
import io
import keyword
import textwrap
import tokenize

from .errors import Drift
from .source import quiet


def statements(text: str) -> list[ast.stmt]:
    """Parse code as one or more statements; `return` and `await` may stand at its top level.

    Errors: Drift(syntax).
    """
    try:
        with quiet():
            found = ast.parse(_flush_left(text)).body
    except (SyntaxError, ValueError) as error:
        raise Drift("syntax", f"the patch's own code does not parse: {error}: {text.strip()!r}") from None
    if not found:
        # It would count as done everywhere: nothing of it can be missing.
        raise Drift("syntax", f"the patch's own code holds no statement: {text.strip()!r}")
    return found


def expression(text: str) -> ast.expr:
    """Parse one expression. Errors: Drift(syntax)."""
    found = try_expression(text)
    if found is None:
        raise Drift("syntax", f"the patch's own expression does not parse: {text!r}")
    return found


def try_expression(text: str) -> ast.expr | None:
    """Like `expression`, but None for what is none."""
    if not text.strip():
        return None
    try:
        with quiet():
            return ast.parse(f"({text.strip()}\n)", mode="eval").body
    except (SyntaxError, ValueError):
        return None


def argument(text: str) -> str:
    """The name of a parameter or keyword argument. Errors: Drift(syntax) when it cannot be one."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise Drift("syntax", f"{text!r} cannot be the name of an argument")
    return text


def header(text: str) -> tuple[ast.stmt, bool]:
    """Parse the statement of an anchor; True when only the header line of a compound one was written."""
    only_header = text.rstrip().endswith(":")
    found = statements(f"{text.rstrip()}\n    pass" if only_header else text)
    if len(found) != 1:
        raise Drift("syntax", f"an anchor is one statement, this is {len(found)}: {text.strip()!r}")
    return found[0], only_header


def layout(text: str, indent: bytes, newline: bytes) -> bytes:
    """Lay statements out under `indent`, one trailing newline; inner lines of strings are left as they are."""
    code = _flush_left(text)
    inside: set[int] = set()
    starts: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        # From 3.12 on an f-string is many tokens. It is left alone as a whole, so that all versions lay it out alike.
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            starts.append(token.start[0])
        elif name == "STRING" or name.endswith("STRING_END"):
            first = token.start[0] if name == "STRING" else starts.pop()
            inside.update(range(first + 1, token.end[0] + 1))
    lines = [
        line.encode() if number in inside or not line.strip() else indent + line.encode()
        for number, line in enumerate(code.split("\n"), start=1)
    ]
    return newline.join(lines) + newline


def _flush_left(text: str) -> str:
    """Code without the indentation that it has as a whole, without blank lines around it."""
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    code = "\n".join(lines)
    # dedent also empties the blank lines inside of strings, so it only gets what needs it.
    return textwrap.dedent(code) if code[:1].isspace() else code
