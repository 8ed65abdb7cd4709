"""Code that a patch brings: parsing it, and laying it out at the place where it goes."""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize

from .errors import Drift

# From 3.12 on the text of an f-string is a token of its own.
_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def statements(text: str) -> list[ast.stmt]:
    """Parse code as statements; `return` and `await` may stand at its top level. Errors: Drift(syntax)."""
    try:
        return ast.parse(textwrap.dedent(text)).body
    except SyntaxError as error:
        raise Drift("syntax", f"the patch's own code does not parse: {error.msg}: {text.strip()!r}") from None


def expression(text: str) -> ast.expr:
    """Parse one expression. Errors: Drift(syntax)."""
    found = try_expression(text)
    if found is None:
        raise Drift("syntax", f"the patch's own expression does not parse: {text!r}")
    return found


def try_expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(f"({text.strip()}\n)", mode="eval").body
    except SyntaxError:
        return None


def header(text: str) -> tuple[ast.stmt, bool]:
    """Parse the statement of an anchor; True when only the header line of a compound one was written."""
    only_header = text.rstrip().endswith(":")
    found = statements(f"{text.rstrip()}\n    pass" if only_header else text)
    if len(found) != 1:
        raise Drift("syntax", f"an anchor is one statement, this is {len(found)}: {text.strip()!r}")
    return found[0], only_header


def layout(text: str, indent: bytes, newline: bytes) -> bytes:
    """Lay statements out under `indent`, one trailing newline; inner lines of strings are left as they are."""
    code = textwrap.dedent(text).strip("\n")
    inside: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type in _STRINGS:
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    lines = [
        line.encode() if number in inside or not line.strip() else indent + line.encode()
        for number, line in enumerate(code.split("\n"), start=1)
    ]
    return newline.join(lines) + newline
