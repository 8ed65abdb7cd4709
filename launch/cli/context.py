"""What every command gets: the project's root, the way it prints, and how errors end a command."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recipe.errors import HallmarkError

# A certificate, a log or an image's label may hold what moves a terminal's cursor or hides text.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """The text with every control character but tab and newline written out."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


@dataclass
class Context:
    """home: the project's root; json: one JSON document on standard output instead of text."""

    home: Path
    json: bool

    def emit(self, document: object, text: Callable[[], str]) -> None:
        """Print the result of a command: the document with --json, else what `text` gives."""
        if self.json:
            print(json.dumps(document, indent=1))
        else:
            shown = text()
            if shown:
                print(visible(shown))

    def say(self, line: str) -> None:
        """Tell what is going on; standard error, so that results stay alone on standard output."""
        print(visible(line), file=sys.stderr, flush=True)

    def fail(self, error: HallmarkError) -> int:
        """Report an error and return the exit status it stands for."""
        for problem in error.problems:
            print(visible(f"hallmark: {problem}"), file=sys.stderr)
        if self.json:
            first = error.problems[0]
            detail: dict[str, object] = {
                "exit": int(error.exit),
                "message": first.message if len(error.problems) == 1 else str(error),
                "where": first.where,
                "hint": first.hint,
                **error.details,
            }
            print(json.dumps({"error": detail}, indent=1))
        return int(error.exit)
