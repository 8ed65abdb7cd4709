"""What patch files must be beyond their format: documented, without holes and overlaps, needed, audited as they are.

Pure: what the sources of the releases say is taken from the committed record of an audit.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import date

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from recipe.applier.states import NOT_APPLICABLE, PENDING, UPSTREAMED
from recipe.catalogue import compile as catalogue
from recipe.catalogue import record as records
from recipe.catalogue import releases, relock
from recipe.catalogue.audit import active
from recipe.catalogue.compile import Patch, applies
from recipe.catalogue.record import Record
from recipe.catalogue.releases import Release
from recipe.config.paths import CHECKOUT
from recipe.config.source import Loc, shown
from recipe.errors import ConfigError, HallmarkError, Problem

_SAYS_NOTHING = re.compile(r"\W*|\W*(todo|tbd|fixme|xxx|none|unknown)\b.*", re.IGNORECASE)


def problems(
    patches: Sequence[Patch], record: Record, listed: Sequence[Release], nightlies: Sequence[str] = ()
) -> list[Problem]:
    """Everything that is wrong with these patches, in the order of the series.

    `nightlies` are versions that ranges may name without an audit; a patch for one of them is still needed.
    """
    found: list[Problem] = []
    for patch in patches:
        found += _undocumented(patch)
        found += _ranges(patch, [*nightlies, *(release.version for release in listed)])
        found += _audited(patch, record, listed, any(active(patch, version) for version in nightlies))
    return [*found, *_together(patches, record)]


def _undocumented(patch: Patch) -> Iterator[Problem]:
    value = patch.value
    texts: dict[Loc, str] = {("title",): value.title, ("why",): value.why, ("remove-when",): value.remove_when}
    texts[("upstream", "status")] = value.upstream.status
    if value.upstream.none is not None:
        texts[("upstream", "none")] = value.upstream.none
    for loc, text in texts.items():
        if _SAYS_NOTHING.fullmatch(text) and text != value.upstream.status:
            yield _problem(patch, loc, f"{text!r} says nothing", "write a sentence for somebody who meets it in a year")
    try:
        date.fromisoformat(value.upstream.checked)
    except ValueError:
        yield _problem(
            patch, ("upstream", "checked"), f"{value.upstream.checked!r} is not a date", "write it as 2026-12-01"
        )


def _ranges(patch: Patch, versions: Sequence[str]) -> Iterator[Problem]:
    end = _range(patch.value.remove_when)
    for index, edit in enumerate(patch.value.edits):
        loc = ("edits", index, "when")
        named = [version for version in versions if applies(edit.when, version)]
        if not named:
            hint = "name a release of configs/releases.yaml, or take the edit out"
            yield _problem(patch, loc, f"{edit.when!r} names no known release", hint)
        late = [version for version in named if end is not None and end.contains(version, prereleases=True)]
        if late:
            hint = f"end the range before, or correct remove-when ({patch.value.remove_when})"
            yield _problem(patch, loc, f"goes on to {late[0]}, where the patch is to be gone", hint)


def _range(text: str) -> SpecifierSet | None:
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        return None


def _audited(patch: Patch, record: Record, listed: Sequence[Release], nightly: bool) -> Iterator[Problem]:
    id = patch.value.id
    missing = [release.name for release in listed if id not in record.states.get(release.name, {})]
    if missing or record.patches.get(id) != records.digest(patch):
        what = f"was not audited on {', '.join(missing)}" if missing else "has changed since it was audited"
        yield _problem(patch, (), what, "make relock")
        return
    states = {release.name: record.states[release.name][id] for release in listed}
    for name, state in states.items():
        if state not in (PENDING, UPSTREAMED, NOT_APPLICABLE):
            hint = f"hallmark audit --vllm {name} says why"
            yield _problem(patch, ("edits",), f"{state} on {name}, which its ranges name", hint)
    needed = nightly or PENDING in states.values()
    if patch.value.class_ == "temporary" and UPSTREAMED in states.values() and not needed:
        hint = "remove the patch, or make it an expectation"
        yield _problem(patch, ("class",), "there is no release left that lacks the fix", hint)
    for release in listed:
        if record.widened.get(release.name, {}).get(id) == PENDING:
            yield from _holes(patch, release, listed)


def _holes(patch: Patch, release: Release, listed: Sequence[Release]) -> Iterator[Problem]:
    """The edits that leave out a release, on which the patch would apply, between two that they name."""
    version = Version(release.version)
    here = active(patch, release.version)
    below = [active(patch, other.version) for other in listed if Version(other.version) < version]
    above = [active(patch, other.version) for other in listed if Version(other.version) > version]
    if not any(below) or not any(above):
        return
    # An edit that takes another one's place here is no hole.
    edits = [
        index
        for index in range(len(patch.value.edits))
        if index not in here and all(any(index in other and here <= other for other in side) for side in (below, above))
    ]
    if not here and not edits:
        edits = [min(next(other for other in reversed(below) if other))]
    for index in edits:
        hint = "widen the range, or split the edit and say why this release is left out"
        message = f"leaves out {release.name} between releases that it names, and would apply there"
        yield _problem(patch, ("edits", index, "when"), message, hint)


def _together(patches: Sequence[Patch], record: Record) -> Iterator[Problem]:
    known = {patch.value.id: patch for patch in patches}
    where: dict[str, list[str]] = {}
    for name, lines in record.together.items():
        for line in lines:
            where.setdefault(line, []).append(name)
    for line, names in where.items():
        patch = known.get(line.partition(":")[0])
        if patch is not None:
            message = f"on {', '.join(names)}, with the other patches: {line}"
            yield _problem(patch, ("edits",), message, "make one patch of those that belong together")


def _problem(patch: Patch, loc: Loc, message: str, hint: str) -> Problem:
    key = f"{'.'.join(map(str, loc))}: " if loc else ""
    return Problem(f"{key}{message}", patch.document.where(loc), hint)


def main() -> int:
    """Lint the shipped catalogue; prints a line for each problem. Returns the exit status."""
    try:
        found = problems(catalogue.catalogue(), records.load(), releases.known(), releases.nightlies())
        found += [Problem(line, shown(relock.path()), "make relock") for line in relock.stale(CHECKOUT)]
        if found:
            raise ConfigError(found)
    except HallmarkError as error:
        print(error, file=sys.stderr)
        return int(error.exit)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
