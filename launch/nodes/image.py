"""Images of the docker engine: found by name on this machine or in the cluster's registry, brought to nodes by digest,
compared there.

Nodes pull from the cluster's registry; when there is none, or it is down, from one that is served here for that time.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launch.nodes import layers, reach, registry
from launch.nodes.staging import Bars, silent
from launch.plan import layers as plan
from launch.plan.place import Place
from recipe.errors import HallmarkError, Mismatch, Refused, Unreachable
from recipe.image import build, client, engine, inspect
from recipe.image.inspect import Image
from recipe.image.reference import Reference, loopback, remote

if TYPE_CHECKING:
    from recipe.image.registry import Repository

_REPOSITORY = "hallmark"
# Whoever tidies up on a node with `docker image prune` takes what has no tag.
KEPT = "hallmark-kept"
_BASE = "org.opencontainers.image.base"
# An engine fetches a layer once for all who pull it. A pull that follows one whose connection was lost may still join
# what that one had begun, through a way that is gone, and fail with it; only the next one begins anew.
_TRIES = 3


@dataclass(frozen=True)
class StagedImage:
    """An image on its nodes. `reference` is the name under which it was found; `digest` the sha256 (hex) of its
    configuration; `registry` the repository of the cluster's registry; `known` REPO@sha256:HEX, under which it was
    once in a registry."""

    reference: str
    digest: str
    places: tuple[Place, ...]
    registry: Reference | None = None
    known: str | None = None

    @property
    def patchset(self) -> None:
        return None

    @property
    def id(self) -> str:
        return f"sha256:{self.digest}"

    def stage(self, say: Callable[[str], None], bars: Bars = silent) -> None:
        lacking = self.lacking()
        if not lacking:
            return
        if (source := self.registry) is not None and (published := self._published(say)) is not None:
            reach.each(
                lambda place: self._bring(place, lambda: self._pull(place, source, published, say, bars), say), lacking
            )
            return
        here = _here(self.id)
        if here is None:
            names = ", ".join(place.name for place in lacking)
            raise Refused(f"{self.reference} ({self.id}) is neither here nor on {names}", hint="build it again")
        with registry.serving() as port:
            own = Reference(f"127.0.0.1:{port}", _REPOSITORY)
            tags = [own.at(self.digest[:12])]
            engine.ask(client.plain(), "tag", self.id, tags[0])
            try:
                manifest = build.push(client.plain(), tags[0], say)
                tags.append(own.at(manifest))
                sent = Sent(own, manifest, here)
                reach.each(lambda place: self._bring(place, lambda: self._send(place, sent, say, bars), say), lacking)
            finally:
                # They are worth nothing without that registry.
                for name in tags:
                    with suppress(HallmarkError):
                        engine.ask(client.plain(), "image", "rm", "--no-prune", name)

    def _published(self, say: Callable[[str], None]) -> str | None:
        """As `publish`; None when that registry is down and the image can be served from here."""
        try:
            return self.publish(say)
        except Unreachable as error:
            if _here(self.id) is None:
                raise
            say(f"  {error}; {self.reference} is served from here")
            return None

    def published(self) -> str | None:
        """The manifest's digest of the image in the cluster's registry; None when it is not there, or there is none.

        Errors: Unreachable; Refused.
        """
        if self.registry is None:
            return None
        own = remote(self.reference)
        names = [self.digest[:12]]
        # Its own digest last: a tag may have been moved away from it, but never that.
        for found in (own, remote(self.known or "")):
            if found is not None and found.name is not None and found.repository == self.registry.repository:
                names = [found.name, *names] if found is own else [*names, found.name]
        with _asked(self.registry) as repository:
            for name in names:
                there = repository.manifest(name)
                if there is not None and there.config == self.id:
                    return there.digest
        return None

    def publish(self, say: Callable[[str], None]) -> str:
        """Bring the image to the cluster's registry, from here or from a node that has it; gives its manifest's digest.

        Errors: Unreachable; Refused when nobody has it, or it may not be pushed.
        """
        assert self.registry is not None
        if (there := self.published()) is not None:
            return there
        name = self.registry.at(self.digest[:12])
        say(f"  {self.reference} goes to {name}")
        if _here(self.id) is not None:
            engine.ask(client.plain(), "tag", self.id, name)
            try:
                build.push(client.plain(), name, say)
            finally:
                with suppress(HallmarkError):
                    engine.ask(client.plain(), "image", "rm", "--no-prune", name)
        else:
            missing = self.lacking()
            holder = next((place for place in self.places if place not in missing), None)
            if holder is None:
                where = f"in {self.registry.repository}, nor here, nor on any node"
                raise Refused(f"{self.reference} ({self.id}) is not {where}", hint="build it again")
            self._push(holder)
        if (there := self.published()) is None:
            raise Mismatch(f"{name} is another image than {self.id}, which was pushed")
        return there

    def differences(self) -> list[str]:
        """None: a container holds its image, and drift compares the two."""
        return []

    def unrestorable(self) -> list[str]:
        lacking = self.lacking()
        if not lacking or _here(self.id) is not None:
            return []
        names = ", ".join(place.name for place in lacking)
        holders = [place.name for place in self.places if place not in lacking]
        told = f"{self.id} is neither here nor on {names}"
        try:
            # From a node that has it the others get it through the registry.
            possible = self.published() is not None or (self.registry is not None and holders)
            return [] if possible else [told]
        except HallmarkError as error:
            by_hand = f" — or bring it by hand: `docker save` on {holders[0]}, `docker load` here" if holders else ""
            return [f"{told}, and {error}{by_hand}"]

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
            return int(engine.ask(client.plain(), "image", "inspect", "--format", "{{.Size}}", self.id))
        return None

    def variables(self) -> dict[str, str] | None:
        """The variables that the image brings along; None when this machine's engine does not have it."""
        with suppress(Refused):
            told = engine.ask(client.plain(), "image", "inspect", "--format", "{{json .Config.Env}}", self.id)
            return dict(line.split("=", 1) for line in json.loads(told) or () if "=" in line)
        return None

    def coming(self, place: Place, size: int) -> int:
        """Bytes of the image, which has `size`, that the node lacks. Errors: Unreachable."""
        here = _here(self.id)
        return plan.coming(size, here.layers, layers.held(place)) if here else size

    def _there(self, place: Place) -> bool:
        done = reach.answer(place, "image", "inspect", "--format", "{{.Id}}", self.id)
        if done.returncode and "no such image" not in done.stderr.lower():
            raise reach.refused(place, done, "docker image inspect failed")
        return done.stdout.strip() == self.id

    def _bring(self, place: Place, once: Callable[[], None], say: Callable[[str], None]) -> None:
        """Do it, and again when it breaks: the way to the registry goes through the connection that was lost."""
        for left in reversed(range(_TRIES)):
            try:
                once()
                break
            except Mismatch:
                raise
            except HallmarkError as error:
                if not left or engine.DISK_FULL in str(error).lower() or "disk is full" in str(error):
                    raise
                say(f"  {place.name}: once more, because {error}")

    def _pull(self, place: Place, source: Reference, manifest: str, say: Callable[[str], None], bars: Bars) -> None:
        say(f"  {place.name} gets {self.reference}")
        with _seen(source, place) as seen:
            layers.pull(place, seen.at(manifest), bars(place.name))
            found = reach.docker(place, "image", "inspect", "--format", "{{.Id}}", seen.at(manifest)).strip()
        if found != self.id:
            raise Mismatch(f"node {place.name} got {found}, and {self.id} was sent")
        reach.docker(place, "tag", self.id, f"{KEPT}:{self.digest[:12]}")

    def _send(self, place: Place, sent: "Sent", say: Callable[[str], None], bars: Bars) -> None:
        """Only the layers that the node lacks, once it has pulled a public base itself; else all through a pull."""
        wanted, base = sent.image.layers, _public_base(sent.image)
        there = plan.there(wanted, layers.held(place))
        if base is not None and there < len(wanted) - 1:
            say(f"  {place.name} pulls {base}")
            try:
                layers.pull(place, base, bars(place.name))
                there = plan.there(wanted, layers.held(place))
            except HallmarkError as error:
                say(f"  {place.name} cannot pull it, so it comes from here: {error}")
        if there and self._load(place, sent, there, say, bars):
            return
        self._pull(place, sent.source, sent.manifest, say, bars)

    def _load(self, place: Place, sent: "Sent", there: int, say: Callable[[str], None], bars: Bars) -> bool:
        """Whether the node has the image from its own layers and those that it lacked."""
        total = len(sent.image.layers)
        say(f"  {place.name} has {there} of {total} layers and gets the others of {self.reference}")
        hear = bars(place.name)
        hear(there, total)
        with ExitStack() as stack:
            name = f"{KEPT}:{self.digest[:12]}"
            try:
                layers.load(place, layers.archive(sent.source, sent.manifest, there, name, stack))
            except (Refused, Mismatch) as error:
                # An engine that keeps images otherwise than by layers takes whole ones only.
                if "disk is full" in str(error):
                    raise
                say(f"  {place.name} takes no single layers: {error}")
                return False
        if not self._there(place):
            return False
        hear(total, total)
        return True

    def _push(self, place: Place) -> None:
        assert self.registry is not None
        with _seen(self.registry, place) as seen:
            name = seen.at(self.digest[:12])
            reach.docker(place, "tag", self.id, name)
            try:
                reach.docker(place, "push", "--quiet", name, seconds=None)
            finally:
                with suppress(HallmarkError):
                    reach.docker(place, "image", "rm", "--no-prune", name)


@dataclass(frozen=True)
class Sent:
    """An image in the registry that is served for a staging: what it is there, and what the engine here says of it."""

    source: Reference
    manifest: str
    image: Image


def _public_base(image: Image) -> str | None:
    """The base by digest, when it came from a registry that every node reaches."""
    name, digest = (image.labels.get(f"{_BASE}.{part}") for part in ("name", "digest"))
    if not name or not digest:
        return None
    repository = inspect.repository_of(name)
    host = repository.partition("/")[0]
    return None if host.partition(":")[0] == "localhost" or loopback(host) else f"{repository}@{digest}"


@contextmanager
def _seen(source: Reference, place: Place) -> Iterator[Reference]:
    """The repository as a node reaches it: one on this machine's loopback through the SSH connection."""
    if not source.loopback:
        yield source
        return
    with registry.reachable(place, source.port) as port:
        # Under that name docker asks for no encryption on the node either.
        yield source if port == source.port else Reference(f"127.0.0.1:{port}", source.path)


@contextmanager
def _asked(source: Reference) -> Iterator["Repository"]:
    # Its HTTP client takes longer to import than most commands that only plan.
    from recipe.image.registry import Repository

    with Repository(source) as repository:
        yield repository


def resolve(reference: str, where: str | None, registry: Reference | None, architecture: str) -> Image:
    """The image of this name: in the cluster's registry when the name is one of there, else on this machine's engine.

    Errors: Refused when there is none; Unreachable.
    """
    named = remote(reference)
    if registry is not None and named is not None and named.name and named.repository == registry.repository:
        with _asked(registry) as repository:
            there = repository.image(named.name, architecture)
        if there is not None:
            return there[1]
    found = _here(reference)
    if found is None:
        hint = "`hallmark image PROFILE` builds a profile's; `docker pull` fetches another"
        if registry is not None:
            hint = f"`hallmark image PROFILE --push {registry.repository}` builds a profile's and stores it there"
        raise Refused(f"there is no image {reference} on this machine's engine", where=where, hint=hint)
    return found


def _here(reference: str) -> Image | None:
    """What this machine's engine knows of an image."""
    return inspect.image(client.plain(), reference)


def staged(
    reference: str,
    digest: str,
    places: Iterable[Place],
    registry: Reference | None = None,
    known: str | None = None,
) -> StagedImage:
    """The image on each of these places once."""
    return StagedImage(reference, digest, tuple(dict.fromkeys(places)), registry, known)
