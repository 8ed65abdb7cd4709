"""An image that the machines of a scheduler pull from its registry themselves, when ranks start there."""

from collections.abc import Callable
from dataclasses import dataclass

from launch.nodes.staging import Bars, silent
from recipe.applier.patchset import PatchSet
from recipe.errors import HallmarkError
from recipe.image.reference import remote


@dataclass(frozen=True)
class PulledImage:
    """`reference`: HOST/PATH@sha256:… of the manifest; `digest`: the sha256 (hex) of the image's configuration."""

    reference: str
    digest: str
    patchset: PatchSet | None = None

    def stage(self, say: Callable[[str], None], bars: Bars = silent) -> None:
        """Nothing to do: each machine pulls it by its digest."""

    def differences(self) -> list[str]:
        """None that could be seen from here: a digest names one image only."""
        return []

    def unrestorable(self) -> list[str]:
        from recipe.image.registry import Repository

        there = remote(self.reference)
        assert there is not None and there.name is not None
        try:
            with Repository(there) as repository:
                return [] if repository.manifest(there.name) else [f"{self.reference} is not in its registry any more"]
        except HallmarkError as error:
            return [str(error)]

    def notes(self) -> list[str]:
        return []
