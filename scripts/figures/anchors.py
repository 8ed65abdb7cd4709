"""Do anchors find their places again? Random call sites of one release, replayed on a later one.

The engine is the one that patches images: its plan decides, nothing is done again here.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from recipe.applier.manifest import Manifest
from recipe.applier.patchset import SCHEMA, PatchSet
from recipe.applier.plan import plan
from recipe.applier.tree import Sources
from recipe.catalogue import released, releases
from scripts.figures import sites
from scripts.figures.rivals import Tools, Way, replace_first
from scripts.figures.sites import Site

PAIRS = (("0.27.1", "0.33.0"), ("0.32.0", "0.33.0"))
COUNT, SEED = 1000, 20261201
ENGINE = "Hallmark"

_METHOD = """\
Random calls with a keyword argument, in files that both releases have and that differ; the change adds one more
keyword to the call. It is written for the old release and replayed on the new one. For the engine it is the plainest
edit that names only this call in the old release: function and callee, else arguments too, else the call or its
statement as a whole. The tree of the result is judged. *There*: the new release still has a call of that callee in
that function. *Certainly wrong*: the keyword stands in another function or in a call of something else (*elsewhere*);
in another call of the same callee although the very call is there too (*sibling*); the site is gone and something was
changed all the same (*gone*); or the result is no Python (*broken*).

Caveats: function and callee are what the judge goes by and also what the engine looks for, so that its zero is partly
by construction (the rule about siblings is not). A change in the place of a function that was renamed counts as
wrong, though a person might want it there. Random calls are not a sample of real patches."""

# way → how many sites by (still there, verdict)
Tallies = dict[str, Counter[tuple[bool, str]]]


@dataclass(frozen=True)
class Row:
    """How one way did: of the sites that are still there `found` of `there` rightly; certainly wrong ones by kind."""

    way: str
    there: int
    found: int
    sibling: int
    elsewhere: int
    gone: int
    broken: int
    refused: int

    @property
    def wrong(self) -> int:
        return self.sibling + self.elsewhere + self.gone + self.broken


@dataclass(frozen=True)
class Study:
    """One pair of releases. `unwritable`: sites for which no edit can be written that names only this call."""

    old: str
    new: str
    sites: int
    unwritable: int
    rows: tuple[Row, ...]


def measure(pair: tuple[str, str], count: int = COUNT, seed: int = SEED) -> Study:
    """Replay `count` sites of the first release on the second, on all cores. Errors: as fetching a release."""
    old, new = (released.sources(releases.find(name)) for name in pair)
    chosen = sites.sample(old, new, count, seed)
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers) as pool:
        parts = pool.map(replay, [chosen[start::workers] for start in range(workers)], repeat(new))
        return study(pair, chosen, sum_tallies(parts))


def replay(chosen: Sequence[Site], new: Sources) -> Tallies:
    """Carry every site to the new release in every way, and judge each result."""
    tallies: Tallies = {}
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(Path(folder))
        ways: dict[str, Way] = {
            ENGINE: _hallmark(new.version),
            "GNU patch (fuzz 2)": tools.gnu_patch(),
            "GNU patch -F0": tools.gnu_patch("-F0"),
            "git apply": tools.git_apply(),
            "git apply --3way": tools.git_merge(),
            "first-match replacement": replace_first,
        }
        for site in chosen:
            data = new.read(site.file) or b""
            before = sites.calls(data)
            there = bool(sites.targets(site, before))
            verdicts: dict[bytes | None, str] = {}
            for name, way in ways.items():
                # Most ways come to the same bytes.
                if (after := way(site, data)) not in verdicts:
                    verdicts[after] = sites.judge(site, before, after)
                tallies.setdefault(name, Counter())[there, verdicts[after]] += 1
    return tallies


def sum_tallies(parts: Iterable[Tallies]) -> Tallies:
    """The tallies of all sites from those of some."""
    found: Tallies = {}
    for part in parts:
        for name, tally in part.items():
            found.setdefault(name, Counter()).update(tally)
    return found


def study(pair: tuple[str, str], chosen: Sequence[Site], tallies: Tallies) -> Study:
    """What the tallies say of one pair of releases."""
    rows = tuple(_row(name, tally) for name, tally in tallies.items())
    return Study(*pair, len(chosen), sum(site.spec is None for site in chosen), rows)


def lines(studies: Iterable[Study]) -> list[str]:
    """The section of the page."""
    found = [_METHOD]
    for study in studies:
        found += [
            "",
            f"vLLM {study.old} → {study.new}: {study.sites} sites (seed {SEED}), {study.rows[0].there} there. For"
            f" {study.unwritable} the operations cannot name the one call; they count as refused.",
            "",
            "| way | found of those there | certainly wrong | elsewhere | sibling | gone | broken | refused |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for row in study.rows:
            kinds = f"{row.elsewhere} | {row.sibling} | {row.gone} | {row.broken}"
            share = f"{100 * row.found / row.there:.1f} % ({row.found})"
            found.append(f"| {row.way} | {share} | {row.wrong} | {kinds} | {row.refused} |")
    return found


def _row(name: str, tally: Counter[tuple[bool, str]]) -> Row:
    return Row(
        way=name,
        there=sum(number for (there, _), number in tally.items() if there),
        found=tally[True, "right"],
        sibling=tally[True, "sibling"],
        elsewhere=tally[True, "wrong"],
        gone=tally[False, "wrong"],
        broken=tally[True, "broken"] + tally[False, "broken"],
        refused=tally[True, "refused"] + tally[False, "refused"],
    )


def _hallmark(version: str) -> Way:
    def way(site: Site, data: bytes) -> bytes | None:
        if site.spec is None:
            return None
        patch = {"id": "probe", "title": "probe", "class": "local", "required": True, "independent": False}
        document = {"schema": SCHEMA, "vllm": version, "baseline": {}}
        patches = [{**patch, "edits": [{**site.spec, "applies": True}]}]
        planned = plan(_One(version, site.file, data), PatchSet({**document, "patches": patches}))
        return None if planned.problems() else planned.files[site.file].after

    return way


class _One:
    """Sources of one file."""

    manifest: Manifest | None = None

    def __init__(self, version: str, file: str, data: bytes) -> None:
        self.version, self._file, self._data = version, file, data

    def read(self, file: str) -> bytes | None:
        return self._data if file == self._file else None

    def files(self) -> Iterable[str]:
        return [self._file]

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        return True
