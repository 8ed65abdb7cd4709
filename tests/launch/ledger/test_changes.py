"""What changed between two revisions: pure, on plans made by hand."""

from dataclasses import replace

from launch.ledger.changes import Record, changes, lines
from launch.ledger.history import Revision
from launch.plan.container import Container, Mount
from launch.plan.group import GroupPlan, RankPlan, Subject
from recipe.config.models import Gates

BOX = Container("r0", "sha256:aa", (Mount("/m", "/models", True),), (), (), {}, "16g", None, {})
ARGV = ("vllm", "serve", "/models/tiny", "--max-model-len", "512", "--enforce-eager")
RANK = RankPlan("left", 0, "local", None, ARGV, {"A": "1", "B": "2"}, {"KEY": "env:KEY"}, BOX, {})
SUBJECT = Subject("image", "r.example/vllm:1", "p1", None, "aa")
PLAN = GroupPlan("pair", "docker", "a", (RANK,), "http://h:1", "tiny", SUBJECT, Gates(trial=(), certify=()))


def revision(number: int, profile: str = "a", digest: str = "aa", patchset: str | None = "p1") -> Revision:
    subject = {"reference": f"r.example/vllm:{number}", "digest": digest, "patchset": patchset, "kind": "image"}
    return Revision(
        number, number, "launch", profile, f"f{profile}", "here", "p", subject, None, None, "committed", "", "me", None
    )


def record(number: int, rank: RankPlan = RANK, **parts: object) -> Record:
    known = {"patches": {"one": {"v": 1}, "two": {"v": 1}}, "profile": "x: 1\ny: 2\n", **parts}
    found = known.pop("revision", None) or revision(number)
    return Record(found, replace(PLAN, ranks=(rank,)), **known)  # type: ignore[arg-type]


def test_two_revisions_of_one_thing_differ_in_nothing() -> None:
    same = replace(revision(2), subject=revision(1).subject)
    found = changes(record(1), record(2, revision=same))
    assert found.none
    assert list(lines(found)) == ["revision 1 → 2", "  the same, as far as it was recorded"]


def test_arguments_variables_mounts_and_options_are_compared_rank_by_rank() -> None:
    argv = (*ARGV[:4], "1024", "--port=1")
    box = replace(BOX, shm_size="32g", mounts=(Mount("/n", "/models", True),))
    other = replace(RANK, argv=argv, env={"A": "1", "C": "3"}, secrets={"KEY": "file:k"}, container=box)
    found = changes(record(1), record(2, other))
    [rank] = found.ranks
    lost, added = ["- --enforce-eager", "- --max-model-len 512"], ["+ --max-model-len 1024", "+ --port=1"]
    assert sorted(rank.argv, reverse=True) == [*reversed(lost), *reversed(added)]
    assert rank.env == {"B": ("2", None), "C": (None, "3"), "KEY": ("(env:KEY)", "(file:k)")}
    assert rank.mounts == ["- /m:/models", "+ /n:/models"]
    assert rank.container == {"shm-size": ("16g", "32g")}
    told = "\n".join(lines(found))
    for line in ("argv + --port=1", "env B: '2' → not set", "shm-size: 16g → 32g", "image: r.example/vllm:1 → r.exam"):
        assert line in told


def test_patches_are_added_removed_and_changed_by_their_content() -> None:
    other = {"two": {"v": 2}, "three": {"v": 1}}
    found = changes(record(1), record(2, revision=revision(2, digest="bb", patchset="p2"), patches=other))
    assert found.patches == {"added": ["three"], "removed": ["one"], "changed": ["two"]}
    assert found.facts["digest"] == ("sha256:aa", "sha256:bb")
    assert found.facts["patch set"] == ("p1", "p2")
    told = list(lines(found))
    assert [it for it in told if it.startswith("  patch ") and "→" not in it] == [
        "  patch + three",
        "  patch - one",
        "  patch ~ two",
    ]


def test_patches_that_are_known_by_name_only_are_not_called_changed() -> None:
    names = dict.fromkeys(("one", "two"))
    found = changes(record(1), record(2, revision=revision(2, patchset="p2"), patches=names))
    assert (found.patches["changed"], found.patches_known) == ([], True)


def test_what_is_not_known_is_said_and_not_made_up() -> None:
    adopted = revision(2, "b", digest="bb", patchset=None)
    found = changes(record(1), record(2, revision=adopted, patches=None, profile=None))
    assert (found.patches_known, found.profile_known, found.profile) == (False, False, [])
    told = "\n".join(lines(found))
    assert "which patches differ is not known" in told
    assert "the profile's file of one of them was not kept" in told


def test_profiles_are_compared_line_by_line() -> None:
    found = changes(record(1), record(2, revision=revision(2, "b"), profile="x: 1\ny: 3\n"))
    assert found.profile[:2] == ["--- a of revision 1", "+++ b of revision 2"]
    assert found.profile[-2:] == ["-y: 2", "+y: 3"]
    document = found.to_json()
    assert (document["from"], document["to"], document["facts"]["profile"]) == (1, 2, ("a", "b"))


def test_a_rank_that_only_one_side_has_is_new_or_gone_as_a_whole() -> None:
    second = replace(RANK, rank=1, name="right")
    wide = replace(record(2), plan=replace(PLAN, ranks=(RANK, second)))
    [rank] = changes(record(1), wide).ranks
    assert (rank.rank, rank.name, rank.argv[0]) == (1, "right", "+ vllm serve /models/tiny")
    assert rank.env["A"] == (None, "1")
