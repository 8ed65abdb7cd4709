"""What every kind of subject can do before ranks run it: be put in place, be looked at, be brought back."""

from collections.abc import Callable
from typing import Protocol

from recipe.applier.patchset import PatchSet

# name of a node → who is told how much of how much it has
Bars = Callable[[str], Callable[[int, int], None]]


def silent(name: str) -> Callable[[int, int], None]:
    """Bars that show nothing."""
    return lambda done, total: None


class Staging(Protocol):
    """An image or an environment, known by the sha256 (hex) of its `digest`."""

    @property
    def digest(self) -> str: ...

    @property
    def patchset(self) -> PatchSet | None:
        """What must be kept to make it again; None when it cannot be made again."""

    def stage(self, say: Callable[[str], None], bars: Bars = silent) -> None:
        """Put it where the ranks will run, unless it is there; `bars` are told how far that is.

        Errors: Refused when it is not what it was then.
        """

    def differences(self) -> list[str]:
        """In what it is no longer as it was staged; empty when nothing changed."""

    def unrestorable(self) -> list[str]:
        """Why it could not be staged now."""

    def notes(self) -> list[str]:
        """What a person should know before it is brought back."""
