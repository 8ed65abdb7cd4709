"""What names stood for when somebody looked: base images, models and extra packages of profiles by digest, in
`configs/pins.lock`."""

import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field

from recipe.config import source
from recipe.config.load import Loaded
from recipe.config.models import Model, Profile
from recipe.errors import HallmarkError, Mismatch, Refused, Unreachable
from recipe.image import inspect, remote
from recipe.image.client import Client
from recipe.image.inspect import repository_of
from recipe.image.packages import Package
from recipe.image.reference import named

COMMIT = re.compile(r"[0-9a-f]{40}")

NAME = "pins.lock"
_HEAD = "# What the names in the profiles stood for; written by `hallmark pin PROFILE`.\n"
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class BasePin(Model):
    """A base image. `list` and `platform` are digests of manifests, None where no registry has the image."""

    reference: str = Field(description="the profile's base when it was pinned")
    list: Digest | None = Field(None, description="the list of images for several platforms")
    platform: Digest | None = Field(None, description="the image for the profile's hardware")
    config: Digest = Field(description="that image's configuration")


class ModelPin(Model):
    """A model repository's commit."""

    repository: str = Field(description="the profile's model when it was pinned")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$", description="the commit")


class ExtrasPin(Model):
    """What a profile's extras come to on its base: wheels by hash, the one that installs them among them."""

    names: tuple[str, ...] = Field(description="the profile's extras when it was pinned")
    packages: tuple[Package, ...]


class Pin(Model):
    """The pins of one profile."""

    base: BasePin
    model: ModelPin | None = None
    extras: ExtrasPin | None = None


class Pins(Model):
    """The whole file."""

    profiles: dict[str, Pin]


@dataclass(frozen=True)
class Base:
    """The base image as a build is to name it, and the config digest that it then must have, None when not pinned."""

    reference: str
    config: str | None


def load(home: Path) -> Loaded[Pins]:
    """The project's pins; none where there is no file. Errors: ConfigError with every mistake."""
    path = home / "configs" / NAME
    document = source.load(path) if path.is_file() else source.Document(path, {"profiles": {}}, {(): 1}, {})
    return Loaded(document.validate(Pins), document, path, NAME)


def base(pins: Loaded[Pins], profile: str, reference: str) -> Base:
    """The base image of a profile by digest, as far as it is pinned.

    Errors: Refused when the profile names another base than the one that was pinned.
    """
    pin = pins.value.profiles.get(profile)
    if pin is None:
        return Base(reference, None)
    if pin.base.reference != reference:
        raise Refused(
            f"{profile} was pinned with the base {pin.base.reference}, the profile names {reference}",
            where=pins.document.where(("profiles", profile, "base", "reference")),
            hint=f"hallmark pin {profile}",
        )
    return exact(pin.base)


def exact(pin: BasePin) -> Base:
    """The base image that was pinned, as a build is to name it."""
    name = f"{repository_of(pin.reference)}@{pin.platform}" if pin.platform else pin.reference
    return Base(name, pin.config)


def extras(pins: Loaded[Pins], profile: str, names: tuple[str, ...]) -> tuple[Package, ...] | None:
    """The wheels of a profile's extras; None when they are not pinned.

    Errors: Refused when the profile names other extras than those that were pinned.
    """
    pin = pins.value.profiles.get(profile)
    if pin is None or (pin.extras is None and not names):
        return None
    if pin.extras is None or pin.extras.names != names:
        was = ", ".join(pin.extras.names) if pin.extras else "none"
        raise Refused(
            f"{profile} was pinned with the extras {was}, the profile names {', '.join(names) or 'none'}",
            where=pins.document.where(("profiles", profile, *(("extras", "names") if pin.extras else ()))),
            hint=f"hallmark pin {profile}",
        )
    return pin.extras.packages


def holds(wanted: Base, found: inspect.Image, profile: str) -> None:
    """Errors: Refused when the image that the engine has under that name is not the pinned one."""
    if wanted.config is not None and found.config_digest != wanted.config:
        raise Refused(
            f"is {found.config_digest} on this engine, pinned is {wanted.config}",
            where=wanted.reference,
            hint=f"load the pinned image, or pin this one: hallmark pin {profile}",
        )


def resolve(client: Client, profile: Loaded[Profile], architecture: str) -> Pin:
    """Ask the registry, or else the engine, what the profile's names stand for now.

    Errors: HallmarkError when the profile names no base; Unreachable when neither has it.
    """
    value, where = profile.value, profile.document.where(("base",))
    if value.base is None:
        raise HallmarkError(f"base: {profile.name} names no base image", where=where, hint="add it")
    found = _base(client, named(value.base, where), architecture, where)
    return Pin.model_validate({"base": found, "model": _model(value.model, value.revision)})


def write(home: Path, profile: str, pin: Pin) -> bool:
    """Put the pin into the project's file, which is made when it is missing; says whether anything changed.

    What others have pinned meanwhile stays, and whenever this ends, the file is the old one or the new one.
    Errors: as `load`.
    """
    folder = os.open(home / "configs", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        pins = load(home)
        found = Pins(profiles={**pins.value.profiles, profile: pin})
        document = found.model_dump(mode="json", by_alias=True, exclude_none=True)
        text = _HEAD + yaml.safe_dump(document, sort_keys=True, width=120)
        if pins.path.is_file() and pins.path.read_text(encoding="utf-8") == text:
            return False
        fresh = pins.path.with_name(f".{NAME}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(pins.path)
        return True
    finally:
        os.close(folder)


def _base(client: Client, reference: str, architecture: str, where: str) -> dict[str, str | None]:
    try:
        found = remote.image(reference, architecture)
    except Unreachable:
        # Images that were made here are in no registry; what the engine has is all that can be known.
        found, here = None, inspect.image(client, reference)
        if here is None:
            raise
    else:
        here = found.image if found else inspect.image(client, reference)
    if here is None:
        raise Unreachable(f"neither the registry nor this engine has {reference}", hint="check its name, or load it")
    if here.architecture != architecture:
        raise HallmarkError(
            f"the base image {reference} is for {here.architecture}, the profile's hardware is {architecture}",
            where=where,
            hint=f"name an image for linux/{architecture}",
        )
    return {
        "reference": reference,
        "list": found.list_digest if found else None,
        "platform": here.manifest_digest if found else None,
        "config": here.config_digest,
    }


def _model(repository: str, revision: str | None) -> dict[str, str] | None:
    """The commit that the model hub has for a repository; None for a folder's name, which no hub has."""
    import httpx

    if repository.count("/") != 1 or repository.startswith(("/", ".", "~")):
        return None
    hub = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    token = hub_token(os.environ.get("HF_TOKEN", ""), "HF_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{hub}/api/models/{repository}/revision/{revision or 'main'}"
    try:
        answer = httpx.get(url, headers=headers, timeout=30, follow_redirects=True)
        found = answer.json()["sha"] if answer.status_code == 200 else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreachable(f"the model hub does not answer: {error}", where=hub) from None
    if not found:
        hint = "check the profile's model and revision, or set HF_TOKEN for a gated model"
        raise Unreachable(f"the model hub answers {answer.status_code} for {repository}", where=hub, hint=hint)
    if not COMMIT.fullmatch(str(found)) or (revision and COMMIT.fullmatch(revision) and found != revision):
        raise Mismatch(f"the model hub was asked for {revision or 'main'} and answers with {found!r}", where=hub)
    return {"repository": repository, "revision": str(found)}


def hub_token(text: str, where: str) -> str | None:
    """A token of the hub, without the ends of lines around it; None for none.

    Errors: HallmarkError, which does not show it, for what no header can carry.
    """
    token = text.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise HallmarkError("what is there is no token of a hub", where=where, hint="it is one word, such as hf_…")
    return token or None
