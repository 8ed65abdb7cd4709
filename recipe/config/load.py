"""Finds and loads profiles, clusters, hardware files and support rows by name or path.

A name is a file name in the project's configs/, or in those of this checkout, so that a folder of one's own
needs only what differs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from recipe.config import explain, paths, serve
from recipe.config.models import ApiRoutes, Cluster, Hardware, Model, Profile, Support
from recipe.config.source import Document, read
from recipe.errors import ConfigError, HallmarkError, Problem

T = TypeVar("T", bound=Model)

# Files that stand among the named ones and are none of them.
_UNNAMED = {"gates": {"known-errors"}}


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """A validated file: its value, its document with the line of everything, its path and name."""

    value: T
    document: Document
    path: Path
    name: str


def load_profile(
    home: Path, name_or_path: str, *, base: Path | None = None, where: str | None = None
) -> Loaded[Profile]:
    """Load a profile by name, or by a path that is relative to `base` (default: the working folder).

    `where` is the place that names it.

    Errors: a ConfigError with all mistakes of the file; an unknown name with the nearest and all known ones.
    """
    return _load(_find(home, "profiles", "profile", name_or_path, base, where), Profile, serve.problems)


def load_cluster(home: Path, name_or_path: str) -> Loaded[Cluster]:
    """Load a cluster by name or path. Errors: as for a profile."""
    return _load(_find(home, "clusters", "cluster", name_or_path), Cluster)


def load_hardware(home: Path, name: str, *, where: str | None = None) -> Loaded[Hardware]:
    """Load a hardware file by name; `where` is the place that names it."""
    return _load(_find(home, "hardware", "hardware", name, None, where), Hardware)


def load_support(home: Path) -> Loaded[Support]:
    """Load the support rows. Errors: a ConfigError with all mistakes; no such file."""
    own = home / "configs" / "support.yaml"
    return _load(own if own.is_file() else paths.CHECKOUT / "configs" / "support.yaml", Support)


def load_api(home: Path) -> Loaded[ApiRoutes]:
    """Load what vLLM's API guards with a key. Errors: a ConfigError with all mistakes; no such file."""
    own = home / "configs" / "api.yaml"
    return _load(own if own.is_file() else paths.CHECKOUT / "configs" / "api.yaml", ApiRoutes)


def list_profiles(home: Path) -> list[Loaded[Profile]]:
    """All profiles by name. Errors: a ConfigError with the mistakes of all files."""
    return _all(home, "profiles", lambda path: _load(path, Profile, serve.problems))


def list_clusters(home: Path) -> list[Loaded[Cluster]]:
    """All clusters by name. Errors: a ConfigError with the mistakes of all files."""
    return _all(home, "clusters", lambda path: _load(path, Cluster))


def names(home: Path, kind: str) -> dict[str, Path]:
    """Every file of configs/KIND/ by its name; the project's own win over this checkout's."""
    found: dict[str, Path] = {}
    for root in (home, paths.CHECKOUT):
        for path in sorted((root / "configs" / kind).glob("*.yaml")):
            if path.stem not in _UNNAMED.get(kind, ()):
                found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def venv_folder(cluster: Loaded[Cluster]) -> Path | None:
    """The virtual environment that `paths.venv` names on this machine; a bare name lies in the cache."""
    text = cluster.value.paths.venv
    if text is None:
        return None
    if "/" in text or text.startswith("~"):
        return (cluster.path.parent / Path(text).expanduser()).absolute()
    return paths.cache() / "venvs" / text


def _load(
    path: Path, model: type[T], also: Callable[[Document], Iterable[tuple[int, Problem]]] | None = None
) -> Loaded[T]:
    document = read(path)
    return Loaded(explain.validate(document, model, also), document, path, path.name.removesuffix(".yaml"))


def _all(home: Path, kind: str, load: Callable[[Path], Loaded[T]]) -> list[Loaded[T]]:
    found: list[Loaded[T]] = []
    problems: list[Problem] = []
    for path in names(home, kind).values():
        try:
            found.append(load(path))
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return found


def _find(
    home: Path, kind: str, noun: str, name_or_path: str, base: Path | None = None, where: str | None = None
) -> Path:
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return (base or Path()) / Path(name_or_path).expanduser()
    known = names(home, kind)
    if name_or_path in known:
        return known[name_or_path]
    near = explain.nearest(name_or_path, known)
    listed = ", ".join(known) or f"none; write configs/{kind}/NAME.yaml"
    hint = f"did you mean {near}? known: {listed}" if near else f"known: {listed}"
    raise HallmarkError(f"there is no {noun} {name_or_path!r}", where=where, hint=hint)
