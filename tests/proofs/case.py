"""What a proof says about one set of releases."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """What `observe()` gives on these releases, as released and with the catalogue applied; JSON values.

    A case whose two sides are equal proves nothing and is refused, but for `unchanged` ones: what a patch must leave
    alone is worth seeing too.
    """

    releases: tuple[str, ...]
    released: Any
    patched: Any
    unchanged: bool = False
