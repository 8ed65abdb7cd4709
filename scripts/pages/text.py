"""Markdown for generated pages."""

from collections.abc import Iterable, Sequence


def generated(title: str, source: str, intro: str) -> str:
    """The head of a page that is made from data."""
    return f"# {title}\n\n<!-- Made by `python -m scripts.pages` from {source}; edit that. -->\n\n{intro}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may hold code and links."""
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def thread(number: int | None) -> str:
    """A link to a pull request or issue of vLLM."""
    return f"[#{number}](https://github.com/vllm-project/vllm/issues/{number})"
