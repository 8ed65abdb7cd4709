"""Images of the docker engine: found on this machine by name, brought to nodes by digest, compared there."""

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from launch.nodes import reach, registry
from launch.plan.place import Place
from recipe.errors import HallmarkError, Mismatch, Refused
from recipe.image import build, engine, inspect
from recipe.image.client import Client
from recipe.image.inspect import Image

# Any docker program can push; only building asks for more.
_CLIENT = Client("docker", buildx=False)
_REPOSITORY = "hallmark"


@dataclass(frozen=True)
class StagedImage:
    """An image on its nodes. `reference` is the name under which it was found; `digest` the sha256 (hex) of its
    configuration."""

    reference: str
    digest: str
    places: tuple[Place, ...]

    @property
    def patchset(self) -> None:
        return None

    @property
    def id(self) -> str:
        return f"sha256:{self.digest}"

    def stage(self, say: Callable[[str], None]) -> None:
        lacking = self.lacking()
        if not lacking:
            return
        here = _here(self.id)
        if here is None:
            names = ", ".join(place.name for place in lacking)
            raise Refused(f"{self.reference} ({self.id}) is neither here nor on {names}", hint="build it again")
        with registry.serving() as port:
            repository = f"127.0.0.1:{port}/{_REPOSITORY}"
            tags = [f"{repository}:{self.digest[:12]}"]
            engine.ask(_CLIENT, "tag", self.id, tags[0])
            try:
                manifest = build.push(_CLIENT, tags[0], say)
                tags.append(f"{repository}@{manifest}")
                reach.each(lambda place: self._pull(place, port, manifest, say), lacking)
            finally:
                # They are worth nothing without that registry.
                for name in tags:
                    with suppress(HallmarkError):
                        engine.ask(_CLIENT, "image", "rm", "--no-prune", name)

    def differences(self) -> list[str]:
        """None: a container holds its image, and drift compares the two."""
        return []

    def unrestorable(self) -> list[str]:
        lacking = self.lacking()
        if not lacking or _here(self.id) is not None:
            return []
        return [f"{self.id} is neither here nor on {', '.join(place.name for place in lacking)}"]

    def notes(self) -> list[str]:
        with suppress(HallmarkError):
            now = _here(self.reference)
            if now is not None and now.config_digest != self.id:
                return [f"{self.reference} is another image now ({now.config_digest}); {self.id} is taken, not the tag"]
        return []

    def lacking(self) -> list[Place]:
        """The nodes whose engine does not have the image."""
        found = reach.each(self._there, self.places)
        return [place for place, there in zip(self.places, found, strict=True) if not there]

    def size(self) -> int | None:
        """Bytes of the image; None when this machine's engine does not have it."""
        with suppress(Refused):
            return int(engine.ask(_CLIENT, "image", "inspect", "--format", "{{.Size}}", self.id))
        return None

    def _there(self, place: Place) -> bool:
        done = reach.run(place, place.docker("image", "inspect", "--format", "{{.Id}}", self.id))
        if done.returncode and "no such image" not in done.stderr.lower():
            raise reach.refused(place, done, "docker image inspect failed")
        return done.stdout.strip() == self.id

    def _pull(self, place: Place, port: int, manifest: str, say: Callable[[str], None]) -> None:
        say(f"  {place.name} gets {self.reference}")
        with registry.reachable(place, port) as there:
            name = f"127.0.0.1:{there}/{_REPOSITORY}@{manifest}"
            reach.docker(place, "pull", "--quiet", name, seconds=None)
            found = reach.docker(place, "image", "inspect", "--format", "{{.Id}}", name).strip()
        if found != self.id:
            raise Mismatch(f"node {place.name} got {found}, and {self.id} was sent")


def resolve(reference: str, where: str | None) -> Image:
    """The image of this name on this machine's engine. Errors: Refused when there is none; Unreachable."""
    found = _here(reference)
    if found is None:
        raise Refused(
            f"there is no image {reference} on this machine's engine",
            where=where,
            hint="`hallmark image PROFILE` builds a profile's; `docker pull` fetches another",
        )
    return found


def _here(reference: str) -> Image | None:
    """What this machine's engine knows of an image."""
    if shutil.which(_CLIENT.program) is None:
        raise HallmarkError(f"there is no program {_CLIENT.program} on PATH", hint="install docker")
    return inspect.image(_CLIENT, reference)


def staged(reference: str, digest: str, places: Iterable[Place]) -> StagedImage:
    """The image on each of these places once."""
    return StagedImage(reference, digest, tuple(dict.fromkeys(places)))
