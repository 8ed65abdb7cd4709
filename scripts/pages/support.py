"""docs/support.md: releases × hardware × feature."""

from typing import Any

from recipe.config.load import load_support
from recipe.config.models import SupportRow
from recipe.config.paths import CHECKOUT
from scripts.pages.text import generated, table

_INTRO = """\
What Hallmark refuses, warns about or sets, and where it knows that from. "wheels" means: read in the released wheels,
not run. A row that names a page of [proofs](proofs/) was seen on that hardware; no other row is verified on hardware.
A variable that the profile sets itself is left as it is."""


def page() -> str:
    """The page as text."""
    rows = [
        (f"`{row.id}`", ", ".join(f"`{r}`" for r in row.releases), _when(row), row.effect, _what(row), row.source)
        for row in load_support(CHECKOUT).value.rows
    ]
    head = ("row", "vLLM", "when", "effect", "why, and what to do", "source")
    return generated("What works where", "configs/support.yaml", _INTRO) + "\n" + table(head, rows)


def _when(row: SupportRow) -> str:
    parts = [f"compute capability {' or '.join(row.capabilities)}" if row.capabilities else "", row.model or ""]
    parts += [_setting(name, value) for name, value in {**row.flags, **row.draft}.items()]
    parts += [f"`{name}` set for the draft" for name in row.draft_settings]
    parts += [f"extra `{row.extra}`" if row.extra else ""]
    parts += [f"fewer than {row.draft_tokens_below} draft tokens" if row.draft_tokens_below else ""]
    parts += [f"unless `{row.unless_patch}` is applied" if row.unless_patch else ""]
    return ", ".join(part for part in parts if part) or "always"


def _setting(name: str, value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    written = [f"`{name}: {one}`" for one in values if one is not None]
    return " or ".join([*written, *([f"no `{name}`"] if None in values else [])])


def _what(row: SupportRow) -> str:
    settings = "; sets " + ", ".join(f"`{name}={value}`" for name, value in row.set.items()) if row.set else ""
    return row.why + (f": {row.hint}" if row.hint else "") + settings
