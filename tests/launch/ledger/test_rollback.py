"""Which revision a rollback goes to, what keeps it from going there, and what is said of it."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from launch.nodes import facts
from tests.standin.world import World


@pytest.fixture
def proven(world: World) -> World:
    """a (revision 1) and c (revision 2, running) are certified."""
    world.brief_trials()
    world.done("key", "new", "ops")
    world.done("launch", "pair")
    world.done("certify", "pair", "--expires", "30")
    world.done("launch", "pair", "--profile", "c")
    world.done("certify", "pair")
    return world


def certificate(world: World, revision: int) -> Path:
    past = world.done("history", "pair")["revisions"]
    digest = next(it["digest"] for it in past if it["number"] == revision)
    return world.store().certificates / f"{digest}.json"


def test_a_rehearsal_makes_every_check_and_changes_nothing(proven: World) -> None:
    before = len(proven.journal().entries)
    found = proven.done("rollback", "pair", "--dry-run")
    assert (found["restores"], found["profile"]) == (1, "a")
    assert (proven.running(), len(proven.journal().entries)) == ([2], before)
    proven.done("key", "revoke", proven.done("key", "list")["keys"][0]["keyid"])
    refused = proven.run("rollback", "pair", "--dry-run")
    assert (refused.exit, "its certificate: revoked key: ops" in refused.err) == (2, True)


def test_a_second_rollback_goes_forth_to_what_the_first_one_left_and_says_so(proven: World) -> None:
    back = proven.run("rollback", "pair")
    assert (back.exit, proven.greeting(), "goes forth" in back.err) == (0, "plain", False), back.err
    forth = proven.run("rollback", "pair")
    assert (forth.exit, proven.greeting()) == (0, "patched"), forth.err
    assert "note: this goes forth again: revision 3 was the rollback away from revision 2" in forth.err
    history = proven.done("history", "pair")["revisions"]
    assert [(it["number"], it["restores"], it["old"]) for it in history][2:] == [(3, 1, 2), (4, 2, 3)]
    # The very revision that runs is no target: nothing changes.
    again = proven.done("rollback", "pair", "--to", "2")
    assert (again["changed"], again["revision"]) == (False, 4)


def test_who_signed_and_that_a_certificate_ends_soon_is_told(proven: World, monkeypatch: pytest.MonkeyPatch) -> None:
    result = proven.run("rollback", "pair", "--dry-run")
    assert "note: signed by ops (" in result.err
    assert "counts until" not in result.err
    monkeypatch.setattr("launch.ledger.certified._SOON", timedelta(days=31))
    until = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%d")
    assert f"note: its certificate counts until {until}" in proven.run("rollback", "pair", "--dry-run").err


def test_an_expired_certificate_is_refused_and_its_date_is_told(proven: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launch.proof.dates.past", lambda moment, now=None: moment is not None)
    refused = proven.run("rollback", "pair")
    assert refused.exit == 2
    assert "its certificate: expired: it counted until 20" in refused.err
    assert proven.running() == [2]


def test_the_profile_says_how_long_a_certificate_counts(world: World) -> None:
    world.profile("a", gates={"trial": ["answers"], "certify": ["answers"], "expires": 90})
    world.done("key", "new", "ops")
    world.done("launch", "pair")
    certified = world.done("certify", "pair")
    wanted = datetime.now(UTC) + timedelta(days=90)
    assert abs((datetime.fromisoformat(certified["expires"]) - wanted).total_seconds()) < 120
    assert "counts    until " in world.run("certificate", "show", certified["certificate"]).out
    assert world.done("certify", "pair", "--expires", "never")["expires"] is None
    past = world.run("certify", "pair", "--expires", "2020-01-01")
    assert (past.exit, "--expires: 2020-01-01 is past" in past.err) == (1, True)


def test_an_edited_certificate_is_refused_with_the_part_that_was_edited(proven: World) -> None:
    path = certificate(proven, 1)
    original = path.read_text()

    def refused() -> str:
        result = proven.run("rollback", "pair", "--to", "1")
        assert (result.exit, proven.running()) == (2, [2])
        return result.err

    for part in ("figures", "profile", "subject", "gates"):
        envelope = json.loads(original)
        statement = json.loads(base64.b64decode(envelope["payload"]))
        if part == "subject":
            statement["subject"][0]["digest"]["sha256"] = "0" * 64
        else:
            statement["predicate"]["hallmark"][part] = "b" if part == "profile" else {}
        envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
        path.write_text(json.dumps(envelope))
        told = refused()
        assert f"its certificate: changed: {part}, by the payload's own checksums" in told
        assert f"edited: {path.name} is not what the history says was written" in told

    # As from somebody whose key is trusted, behind the history's back.
    path.write_text(json.dumps(json.loads(original)))
    told = refused()
    assert "bad signature" not in told
    assert f"its certificate: edited: {path.name} is not what the history says was written" in told

    path.write_bytes(certificate(proven, 2).read_bytes())
    told = refused()
    assert "its certificate: wrong digest: it is about sha256:" in told
    assert "its certificate: wrong profile: it is about c, not a" in told


def test_another_kind_of_machine_than_the_tested_one_is_refused(proven: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPUs are a StandIn's; what `nvidia-smi` of a GB10 or H200 says was not compared on hardware."""
    real = facts.machine
    for now, says in (
        ({"machine": "riscv64"}, "node left has riscv64"),
        ({"gpus": ["NVIDIA H200"]}, "it was tested on no GPU, node left has NVIDIA H200"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(facts, "machine", lambda place, now=now: {**real(place), **now})
            refused = proven.run("rollback", "pair")
        assert refused.exit == 2
        assert "its certificate: wrong hardware: " in refused.err
        assert says in refused.err
    assert proven.running() == [2]


def test_ranks_that_come_up_otherwise_than_planned_are_not_taken(
    proven: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generation is looked at after the start, before anything is judged."""
    drift = {0: ["image is another"], 1: []}
    monkeypatch.setattr("launch.engines.process.ProcessEngine.drift", lambda self, plan, group: drift)
    judged: list[object] = []
    monkeypatch.setattr("launch.ledger.launch.judge", lambda *words: judged.append(words))
    refused = proven.run("rollback", "pair")
    assert refused.exit == 2
    assert "rank 0 (left) is not what was planned: image is another — revision 2 is back and answers" in refused.err
    assert (proven.running(), judged) == ([2], [])


def test_everything_that_a_cluster_may_go_back_to_is_kept(proven: World) -> None:
    """B7: plans, patch sets, profiles, certificates and environments of long ago."""
    for profile in ("a", "c", "a"):
        proven.done("launch", "pair", "--profile", profile)
    folder = proven.store().folder
    revisions = proven.done("history", "pair")["revisions"]
    for revision in revisions:
        assert (folder / "plans" / f"r{revision['number']}.json").is_file()
        assert (folder / "patchsets" / f"{revision['patchset']}.json").is_file()
        assert Path(revision["image"]).is_dir()
    assert len(list((folder / "profiles").iterdir())) == 2
    assert proven.done("rollback", "pair", "--to", "2", "--dry-run")["restores"] == 2


def test_certificates_are_listed_with_their_revisions_and_what_they_are_worth(proven: World) -> None:
    proven.done("rollback", "pair")
    listed = proven.done("certificate", "list", "pair")["certificates"]
    assert [(it["profile"], it["valid"], it["revisions"]) for it in sorted(listed, key=lambda it: it["profile"])] == [
        ("a", True, ["pair/1", "pair/3"]),
        ("c", True, ["pair/2"]),
    ]
    # Clusters that every checkout has may have been used on this machine.
    lines = [it for it in proven.run("certificate", "list").out.splitlines() if "signed by ops (" in it]
    assert len(lines) == 2
    assert any("  a  valid until 20" in line for line in lines)
    certificate(proven, 2).write_text("{}")
    assert "not valid: bad JSON" in proven.run("certificate", "list", "pair").out
