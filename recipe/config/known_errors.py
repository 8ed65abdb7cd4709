"""What configs/gates/known-errors.yaml says: log lines with what they mean and what to do about them."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from recipe.config import paths
from recipe.config.explain import validate, wrong
from recipe.config.fields import Name
from recipe.config.gate_parts import Regex, Text
from recipe.config.models import Model
from recipe.config.source import read

FILE = Path("configs") / "gates" / "known-errors.yaml"


class KnownError(Model):
    """One fault: `pattern` is searched in each line, and matches every line of `seen`."""

    id: Name
    pattern: Regex = Field(description="a regular expression")
    means: Text = Field(description="what went wrong")
    remedy: Text = Field(description="what to do about it")
    source: Text = Field(description="where that is known from")
    seen: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(description="a list of recorded lines")

    @field_validator("seen")
    @classmethod
    def _matched(cls, seen: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        pattern = info.data.get("pattern")
        for line in seen:
            if pattern is not None and not re.search(pattern, line):
                raise wrong(f"the pattern does not match {line!r}", "mend one of the two")
        return seen


class KnownErrors(Model):
    """All of them, the more telling first."""

    kind: Literal["known-errors"]
    errors: Annotated[tuple[KnownError, ...], Field(min_length=1)] = Field(description="a list of errors")

    @field_validator("errors")
    @classmethod
    def _each_once(cls, errors: tuple[KnownError, ...]) -> tuple[KnownError, ...]:
        seen: set[str] = set()
        for error in errors:
            if error.id in seen:
                raise wrong(f"{error.id!r} names two errors", "give each an id of its own")
            seen.add(error.id)
        return errors


def load_known_errors(home: Path) -> tuple[KnownError, ...]:
    """Read the file, the project's own or this checkout's. Errors: ConfigError with every mistake."""
    own = home / FILE
    return validate(read(own if own.is_file() else paths.CHECKOUT / FILE), KnownErrors).errors
