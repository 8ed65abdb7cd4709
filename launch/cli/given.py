"""Values that are given on the command line. An empty path, as an unset variable of a shell leaves it, is none: as a
path it would be the current folder."""

import math
from pathlib import Path
from typing import Any

import click


class Given(click.Path):
    """A file or folder that may or may not be there."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) in ("", "\0"):
            self.fail("it is empty: name a file or folder, or leave it out", param, ctx)
        return super().convert(value, param, ctx)


class Finite(click.FloatRange):
    """A number in a range; `nan` is in none, and `inf` is no time and no speed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number
