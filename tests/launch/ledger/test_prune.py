"""Which images go and which stay; what was recorded anywhere counts. No engine is asked here."""

import json
import os
import shutil
from pathlib import Path

import pytest

from launch.group.journal import Event
from launch.ledger.prune import Pruned, choose, prune
from launch.nodes.image import KEPT
from launch.nodes.lock import locked
from launch.nodes.stock import Stock, Stocked, referred
from launch.plan.place import Place
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit, Mismatch
from tests.standin.world import World

HERE, RIGHT = Place("this machine", "local"), Place("right", "local")
DIGEST = "a" * 64
JOURNAL = json.dumps({"data": {"digest": DIGEST}}) + "\n"
LABELS = {"dev.hallmark.profile": "p", "dev.hallmark.vllm": "0.33.0+cpu", "dev.hallmark.patchset": "0123456789"}
BUILT = "hallmark:p-0.33.0_cpu-01234567"


def reasons(*names: str, used: dict[str, list[str]] | None = None, records: dict[str, set[str]] | None = None) -> str:
    found = Stock(HERE, "one", [Stocked(HERE, f"sha256:{DIGEST}", LABELS, names)], used or {})
    (choice,) = choose([found, Stock(RIGHT, "two", [], used or {})], records or {})
    return ", ".join(choice.reasons)


@pytest.mark.parametrize(
    "name",
    [BUILT, f"registry:5000/team/{BUILT}", f"{KEPT}:{DIGEST[:12]}", f"127.0.0.1:5/hallmark@sha256:{DIGEST}"],
)
def test_an_image_with_only_the_names_that_builds_and_stagings_give_goes(name: str) -> None:
    assert reasons(name) == ""


def test_an_image_without_any_name_goes() -> None:
    assert reasons() == ""


@pytest.mark.parametrize("name", ["production:1", "hallmark:p-certified", "hallmark:p-0.33.0_cpu-76543210"])
def test_a_name_that_somebody_gave_keeps_an_image(name: str) -> None:
    assert reasons(BUILT, name) == f"the name {name}"


def test_b7_a_container_on_any_engine_a_history_and_a_certificate_keep_an_image() -> None:
    used = {f"sha256:{DIGEST}": ["rank-0"]}
    assert reasons(BUILT, used=used) == "container rank-0 on this machine, container rank-0 on right"
    records = {DIGEST: {"history of two", "certificate of one"}}
    assert reasons(BUILT, records=records) == "certificate of one, history of two"
    assert reasons(BUILT, records={"b" * 64: {"history of two"}}) == ""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_b7_what_histories_of_all_clusters_and_their_copies_name_is_found(tmp_path: Path) -> None:
    launched = json.dumps({"event": "INTENT", "data": {"subject": {"kind": "image", "digest": DIGEST}}})
    certified = json.dumps({"event": "CERTIFIED", "data": {"digest": f"sha256:{'b' * 64}"}})
    # The last line was torn off while it was written.
    write(tmp_path / "clusters/one/journal.jsonl", f'{launched}\n{certified}\n{{"event": "INT')
    write(tmp_path / "copies/two-0123/journal.jsonl", f"{launched}\n")
    write(tmp_path / "clusters/one/logs/r1/left.log", "no record")
    found = referred(HERE, str(tmp_path))
    assert found.digests == {DIGEST: {"history of one", "history of two"}, "b" * 64: {"history of one"}}
    assert (found.there, found.files) == (True, 2)


def test_a_folder_without_any_record_is_told_from_one_for_records_that_has_none_yet(tmp_path: Path) -> None:
    (tmp_path / "mount-point").mkdir()
    (tmp_path / "locked/clusters/one").mkdir(parents=True)
    write(tmp_path / "locked/clusters/one/lock", "somebody")
    found = {name: referred(HERE, str(tmp_path / name)) for name in ("nothing", "mount-point", "locked")}
    assert {name: (it.there, it.files, it.digests) for name, it in found.items()} == {
        "nothing": (False, 0, {}),
        "mount-point": (False, 0, {}),
        "locked": (True, 0, {}),
    }


@pytest.mark.parametrize("made", [False, True], ids=["gone", "empty"])
def test_without_the_state_folder_nothing_is_pruned_because_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    """What the mount point of a disk looks like that is not mounted."""
    state = tmp_path / "state"
    if made:
        state.mkdir()
    monkeypatch.setenv("HALLMARK_STATE", str(state))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("launch.ledger.prune._stocks", lambda works: pytest.fail("an engine was asked"))
    with pytest.raises(Mismatch) as refused:
        prune(CHECKOUT, (), dry_run=False, say=lambda line: None)
    assert str(refused.value) == (
        f"{state}: is not there or empty, so nothing says what refers to the images"
        f" — mount it; if nothing was ever launched from this machine: mkdir -p {state}/clusters"
    )
    assert state.exists() is made
    (state / "clusters").mkdir(parents=True)
    monkeypatch.setattr("launch.ledger.prune._stocks", lambda works: [])
    assert prune(CHECKOUT, (), dry_run=False, say=lambda line: None) == Pruned([], [])


@pytest.mark.parametrize("file", ["clusters/one/journal.jsonl", "clusters/one/certificates/x.json"])
def test_a_record_that_cannot_be_read_is_an_error_because_it_may_name_anything(tmp_path: Path, file: str) -> None:
    write(tmp_path / file, '{"no": "data"}\n')
    with pytest.raises(Mismatch, match=f"this machine:{tmp_path}/{file}: cannot be read") as refused:
        referred(HERE, str(tmp_path))
    assert refused.value.exit == Exit.MISMATCH


@pytest.mark.parametrize(
    "line",
    ['{"data": "x"}', f'{{"data": {"[" * 90_000}{"]" * 90_000}}}', '{"data": null}'],
    ids=["a-text", "deep", "nothing"],
)
def test_a_line_of_a_history_that_no_launch_writes_may_name_anything(tmp_path: Path, line: str) -> None:
    write(tmp_path / "clusters/one/journal.jsonl", f"{line}\n")
    with pytest.raises(Mismatch, match=r"journal\.jsonl: cannot be read"):
        referred(HERE, str(tmp_path))


@pytest.mark.parametrize("name", ["clusters", "copies"])
def test_a_file_in_the_place_of_the_records_is_not_taken_for_having_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(Mismatch, match=rf"records cannot be read.*{name} is no folder"):
        referred(HERE, str(tmp_path))


def test_records_that_links_lead_to_count(tmp_path: Path) -> None:
    write(tmp_path / "disk/clusters/two/journal.jsonl", JOURNAL)
    (tmp_path / "state").mkdir()
    (tmp_path / "state/clusters").symlink_to(tmp_path / "disk/clusters")
    (tmp_path / "link").symlink_to(tmp_path / "state")
    for state in ("state", "link", "disk"):
        assert referred(HERE, str(tmp_path / state)).digests == {DIGEST: {"history of two"}}, state


@pytest.mark.parametrize(
    "name", ["clusters", "clusters/two", "clusters/two/certificates", "clusters/two/journal.jsonl"]
)
def test_what_leads_nowhere_is_not_taken_for_having_no_records(tmp_path: Path, name: str) -> None:
    state = tmp_path / "state"
    (state / name).parent.mkdir(parents=True)
    (state / name).symlink_to(tmp_path / "not-mounted")
    with pytest.raises(Mismatch, match="records cannot be read, so nothing says what they refer to"):
        referred(HERE, str(state))
    lost = tmp_path / "lost"
    lost.symlink_to(tmp_path / "not-mounted")
    with pytest.raises(Mismatch, match="records cannot be read"):
        referred(HERE, str(lost))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", ["", "clusters", "clusters/two", "clusters/two/journal.jsonl"])
def test_records_that_this_user_may_not_read_end_it(tmp_path: Path, name: str) -> None:
    write(tmp_path / "state/clusters/two/journal.jsonl", JOURNAL)
    path = tmp_path / "state" / name
    path.chmod(0)
    try:
        with pytest.raises(Mismatch, match="records cannot be read"):
            referred(HERE, str(tmp_path / "state"))
    finally:
        path.chmod(0o700)


def test_b7_of_a_cluster_that_is_named_the_records_must_be_there_and_go_on_from_what_was_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sibling of an empty state folder: a node's disk that is not mounted, or a history that lost its end; the engines
    are not asked here."""
    monkeypatch.setattr("launch.ledger.prune._stocks", lambda works: [])
    paths = {"state": str(world.node), "models": str(world.models)}
    world.cluster(engine="docker", paths=paths)
    (world.state / "clusters").mkdir(parents=True)
    for more in (("--dry-run",), ()):
        # The second time the lock has made the folder.
        never = world.run("images", "prune", "pair", *more)
        assert (never.exit, f"left:{world.node}: has no record of any cluster" in never.err) == (Exit.MISMATCH, True)

    store = world.store()
    with locked(store.lock, "a test"):
        store.journal().append(Event.LOCK_BROKEN, 0, who="me", held={})
    assert world.done("images", "prune", "pair") == {"dry_run": False, "removed": [], "kept": []}

    aside = world.node.with_name("not-mounted")
    world.node.rename(aside)
    world.node.mkdir()
    for words in (("images", "prune", "pair"), ("history", "pair"), ("status", "pair")):
        lost = world.run(*words)
        told = (lost.exit, "line 1 is only in the copy on this machine" in lost.err)
        assert told == (Exit.MISMATCH, True), (words, lost.err)
    shutil.rmtree(world.node)
    aside.rename(world.node)
    assert world.run("images", "prune", "pair").exit == Exit.OK
