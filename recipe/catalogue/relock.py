"""Harvests what patches are held to from the released wheels: baselines, and patches.lock.

A baseline is the sha256 of every file that a patch touches, as one release has it. The lock has the sha256 before
and after of every file that a profile's patch set changes, for every release on which the patch set applies:
release → patch set → file → [before, after], null for a file that is not there.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from recipe.applier.manifest import sha256
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.tree import Sources
from recipe.catalogue import compile as catalogue
from recipe.catalogue import released, releases, target
from recipe.catalogue.known import recorded
from recipe.config.load import Loaded, list_profiles, load_hardware
from recipe.config.models import Profile
from recipe.errors import Refused

Lock = dict[str, dict[str, dict[str, list[str | None]]]]


def relock(home: Path, say: Callable[[str], None], *, check: bool = False) -> list[str]:
    """Write the baselines of all listed releases and the lock; returns the files that changed, or with `check` that
    would have.

    Errors: Unreachable when a wheel cannot be fetched; Mismatch when it is not the pinned one; Refused when two
    distributions of one version would need different locks for one patch set.
    """
    folder = catalogue.PATCHES
    touched = sorted({edit.file for patch in catalogue.catalogue() for edit in patch.value.edits})
    sources: dict[str, Sources] = {}
    baselines = {}
    for release in releases.known():
        say(f"harvesting {release.name}")
        found = sources[release.name] = released.sources(release)
        digests = {file: sha256(data) for file in touched if (data := found.read(file)) is not None}
        baselines[f"{release.distribution}-{release.version}.json"] = _text(digests)
    changed = []
    for name in sorted({*baselines, *(path.name for path in (folder / "baselines").glob("*.json"))}):
        if _put(folder / "baselines" / name, baselines.get(name), check=check):
            changed.append(f"recipe/patches/baselines/{name}")
    # Compiled patch sets hold baselines, so these are written first.
    if _put(path(), _text(_lock(home, sources, say)), check=check):
        changed.append("recipe/patches/patches.lock")
    return changed


def locked(patchset: PatchSet, sources: Sources) -> dict[str, list[str | None]] | None:
    """file → [sha256 before, sha256 after] of the files that a patch set changes; None where it does not apply."""
    # What it was locked to before must not decide.
    free = PatchSet({key: value for key, value in patchset.document.items() if key != "lock"})
    with target.translated():
        planned = plan(sources, free)
    if planned.problems() or not planned.files:
        return None
    return {
        change.file: [None if data is None else sha256(data) for data in (change.pristine, change.after)]
        for change in planned.files.values()
    }


def held(patchset: PatchSet, distribution: str, say: Callable[[str], None]) -> PatchSet:
    """The patch set with the lock that an image needs: that of patches.lock, which has every profile's; for a patch
    set of one's own, what it makes of the released wheel.

    Errors: Refused when its release is not listed, or it does not apply there; those of fetching a wheel.
    """
    changes = any(edit["applies"] for patch in patchset.patches for edit in patch["edits"])
    if not changes or patchset.lock is not None:
        return patchset
    name = f"the patch set {patchset.sha256[:8]}"
    listed = {(release.distribution, release.version): release for release in releases.known()}
    release = listed.get((distribution, patchset.vllm))
    if release is None:
        what = f"{name} is for {releases.name(distribution, patchset.vllm)}, of which no wheel is listed to hold it to"
        raise Refused(what, where="configs/releases.yaml", hint="add its line there")
    files = locked(patchset, released.sources(release))
    if files is None:
        hint = "`hallmark plan PROFILE` says what drifts"
        raise Refused(f"{name} does not apply to the released {release.name}", hint=hint)
    say(f"note: {name} is not in patches.lock: the image is held to what it makes of the released {release.name}")
    return PatchSet({**patchset.document, "lock": files})


def path() -> Path:
    """Where the lock is."""
    return catalogue.PATCHES / "patches.lock"


def stale(home: Path) -> list[str]:
    """What patches.lock lacks or has too much, told without the wheels."""
    file = path()
    lock: Lock = recorded(file) if file.is_file() else {}
    lines = []
    wanted: set[tuple[str, str]] = set()
    for profile, release, patchset in _sets(home):
        wanted.add((release.version, patchset.sha256))
        if release.version == profile.value.release and patchset.sha256 not in lock.get(release.version, {}):
            lines.append(f"lacks the patch set {patchset.sha256[:8]} of {profile.name} on vLLM {release.version}")
    for version, sets in lock.items():
        extra = [name for name in sets if (version, name) not in wanted]
        lines += [f"has the patch set {name[:8]} on vLLM {version}, which no profile is compiled to" for name in extra]
    return lines


def _sets(home: Path) -> Iterator[tuple[Loaded[Profile], releases.Release, PatchSet]]:
    """Every profile's patch set on every release of its distribution on which an edit applies."""
    for profile in list_profiles(home):
        if profile.value.release is None:
            continue
        distribution = load_hardware(home, profile.value.hardware).value.distribution
        for release in releases.known():
            if release.distribution == distribution:
                patchset = catalogue.compile_profile(profile, release.version)
                if any(edit["applies"] for patch in patchset.patches for edit in patch["edits"]):
                    yield profile, release, patchset


def _lock(home: Path, sources: dict[str, Sources], say: Callable[[str], None]) -> Lock:
    lock: Lock = {}
    for profile, release, patchset in _sets(home):
        say(f"locking {profile.name} on {release.name}")
        files = locked(patchset, sources[release.name])
        if files is not None and lock.setdefault(release.version, {}).setdefault(patchset.sha256, files) != files:
            raise Refused(
                f"the files of {release.name} are others than those of another distribution of this version",
                where=profile.document.where(("vllm",)),
                hint="give one of the two profiles a patch set of its own",
            )
    return lock


def _text(document: object) -> str:
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _put(path: Path, text: str | None, *, check: bool) -> bool:
    """Make the file hold `text`, or not be there for None; returns whether it did not."""
    now = path.read_bytes() if path.is_file() else None
    if now == (None if text is None else text.encode()):
        return False
    if not check:
        if text is None:
            path.unlink()
        else:
            path.write_text(text, encoding="utf-8")
    return True
