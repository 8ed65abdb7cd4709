"""Turns patch files into the one JSON document that the applier reads, for one exact vLLM version.

Reads files, decides nothing about sources: snippets and overlays are inlined, `when` ranges become `applies`.
"""

from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from recipe.applier.errors import Drift
from recipe.applier.ops import operation
from recipe.applier.patchset import SCHEMA, PatchSet
from recipe.catalogue import model
from recipe.catalogue.known import attach, recorded
from recipe.config import paths, source
from recipe.config.load import Loaded
from recipe.config.models import Profile
from recipe.errors import ConfigError, HallmarkError, Problem, Refused

PATCHES = paths.CHECKOUT / "recipe" / "patches"
OVERLAY = paths.CHECKOUT / "overlay"


@dataclass(frozen=True)
class Patch:
    """A patch file that was read: the model, and the document for messages about it."""

    value: model.PatchFile
    document: source.Document


def series() -> list[str]:
    """Patch ids in the order in which they are planned.

    Errors: ConfigError for a list that cannot be read, an id without a file, a file without a line, or an id that is
    listed twice.
    """
    path = PATCHES / "series"
    listed: list[str] = []
    problems = []
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        message = "is missing" if isinstance(error, FileNotFoundError) else "is not UTF-8"
        raise ConfigError([Problem(message, source.shown(path), "write the ids of the patches, one a line")]) from None
    for number, line in enumerate(text.splitlines(), start=1):
        id = line.partition("#")[0].strip()
        if not id:
            continue
        where = f"{source.shown(path)}:{number}"
        if id in listed:
            problems.append(Problem(f"{id!r} is listed twice", where, "keep one of the lines"))
        elif not (path.parent / f"{id}.yaml").is_file():
            problems.append(Problem(f"there is no {id}.yaml beside it", where, "add the file or drop the line"))
        listed.append(id)
    for file in sorted(path.parent.glob("*.yaml")):
        if file.stem not in listed:
            problems.append(Problem("is not listed in series", source.shown(file), f"add the line {file.stem}"))
    if problems:
        raise ConfigError(problems)
    return listed


def load_patch(path: Path) -> Patch:
    """Read one patch file. Errors: ConfigError with every mistake and its line."""
    document = source.load(path)
    value = document.validate(model.PatchFile)
    if value.id != path.stem:
        raise ConfigError(
            [Problem(f"id: {value.id!r} is not the file's name", document.where(("id",)), f"write {path.stem}")]
        )
    return Patch(value, document)


def compile_profile(profile: Loaded[Profile], vllm: str | None = None) -> PatchSet:
    """Compile the patches of a profile for `vllm`, by default the profile's own version.

    Errors: ConfigError in a patch file or for a patch that does not exist; Refused for a fork, which takes none.
    """
    version = vllm or profile.value.vllm
    if not isinstance(version, str):
        raise Refused(
            f"{profile.name} runs the fork {version.fork!r}, which is launched as it is and takes no patches",
            where=profile.document.where(("vllm",)),
        )
    return compile_patches(_chosen(profile), version)


def compile_patches(chosen: list[tuple[Patch, bool]], version: str, ranges_of: str | None = None) -> PatchSet:
    """Compile (patch, required) pairs for `version`; the edits that apply are those of `ranges_of`, if it is given.

    Errors: HallmarkError for a snippet or overlay that is not there, or a version that is none; ConfigError for code
    in a patch file that is none.
    """
    compiled = [_compile(patch, required, ranges_of or version) for patch, required in chosen]
    files = sorted({edit["file"] for patch in compiled for edit in patch["edits"]})  # type: ignore[attr-defined]
    known = baseline(version)
    patchset = PatchSet(
        {
            "schema": SCHEMA,
            "vllm": version,
            "patches": compiled,
            "baseline": {file: known[file] for file in files if file in known},
        }
    )
    return attach(patchset, [patch.value for patch, _ in chosen], PATCHES)


def catalogue() -> list[Patch]:
    """Every patch of the series, in its order. Errors: ConfigError with the mistakes of all files."""
    found: list[Patch] = []
    problems: list[Problem] = []
    for id in series():
        try:
            found.append(load_patch(PATCHES / f"{id}.yaml"))
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return found


def baseline(version: str) -> dict[str, list[str]]:
    """sha256 of the files of every distribution of this release, as harvested from its wheels."""
    found: dict[str, list[str]] = {}
    for path in sorted((PATCHES / "baselines").glob(f"*-{version}.json")):
        for file, digest in recorded(path).items():
            digests = found.setdefault(file, [])
            if digest not in digests:
                digests.append(digest)
    return found


def _chosen(profile: Loaded[Profile]) -> list[tuple[Patch, bool]]:
    """(patch, required) in the order of the series; patches named by a path come last, in the profile's order."""
    order = series()
    known: list[tuple[int, Path, bool]] = []
    problems = []
    for kind in ("required", "optional"):
        for index, name in enumerate(getattr(profile.value.patches, kind)):
            path = profile.path.parent / name if "/" in name else PATCHES / f"{name}.yaml"
            if "/" not in name and name not in order:
                hint = f"one of {', '.join(order)}, or the path of a patch file"
                where = profile.document.where(("patches", kind, index))
                problems.append(Problem(f"patches.{kind}.{index}: there is no patch {name!r}", where, hint))
                continue
            if path in (listed for _, listed, _ in known):
                where = profile.document.where(("patches", kind, index))
                problems.append(Problem(f"patches.{kind}.{index}: {name!r} is listed twice", where, "keep one of them"))
            place = order.index(name) if "/" not in name else len(order) + len(known)
            known.append((place, path, kind == "required"))
    if problems:
        raise ConfigError(problems)
    return [(load_patch(path), required) for _, path, required in sorted(known, key=lambda item: item[0])]


def _compile(patch: Patch, required: bool, version: str) -> dict[str, object]:
    value = patch.value
    edits = []
    problems = []
    for index, edit in enumerate(value.edits):
        spec = edit.model_dump(by_alias=True, exclude_none=True)
        spec["applies"] = applies(spec.pop("when"), version)
        where = patch.document.where(("edits", index))
        if name := spec.pop("snippet", None):
            spec["add"] = _text(patch.document.path.parent / "snippets", name, where, "snippet")
        if name := spec.pop("source", None):
            spec["content"] = _text(_overlays(patch.document.path, name), name, where, "source")
        try:
            operation(spec)
        except Drift as drift:
            problems.append(Problem(f"edits[{index}]: {drift.message}", where))
        edits.append(spec)
    if problems:
        raise ConfigError(problems)
    return {
        "id": value.id,
        "title": value.title,
        "class": value.class_,
        "required": required,
        "independent": value.independent,
        **({"note": value.note} if value.note else {}),
        "edits": edits,
    }


def _overlays(patch: Path, name: str) -> Path:
    """Overlay modules are below `overlay/`; a patch outside the catalogue may keep its own beside itself."""
    return patch.parent if name.startswith("./") else OVERLAY


def _text(folder: Path, name: str, where: str, key: str) -> str:
    path = folder / name
    if not path.is_file():
        raise HallmarkError(f"{key}: there is no file {source.shown(path)}", where=where)
    if not path.resolve().is_relative_to(folder.resolve()):
        message = f"{key}: {source.shown(path)} is a link that leads out of {source.shown(folder)}"
        raise HallmarkError(message, where=where, hint="put the file itself there")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{key}: byte 0x{error.object[error.start]:02x} of {source.shown(path)} is not UTF-8"
        raise HallmarkError(message, where=where, hint="save the file as UTF-8") from None


def applies(when: str, version: str) -> bool:
    """Whether a `when` range holds for a vLLM version; its local part (`+cpu`) does not count.

    Errors: HallmarkError when the version is not a version.
    """
    try:
        return SpecifierSet(when).contains(Version(Version(version).public), prereleases=True)
    except InvalidVersion:
        raise HallmarkError(f"{version!r} is not a version", hint="write for example 0.33.0") from None
