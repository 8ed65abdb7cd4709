"""The records of a cluster on nodes that are folders of this machine, reached by a StandIn of ssh."""

from collections.abc import Callable
from pathlib import Path

import pytest

from launch.group.journal import Event, Journal
from launch.nodes import ssh
from launch.nodes.lock import Lock, Overtaken, locked
from launch.nodes.records import JOURNAL, Records
from launch.nodes.shelf import Shelf
from launch.plan.place import Place
from recipe.errors import Mismatch, Refused, Unreachable

_SSH = """#!/bin/sh
for word; do last=$word; done
case "$*" in *" down@"*) echo "ssh: connect to host down port 22: Connection refused" >&2; exit 255 ;; esac
if [ -f "$0.breaks" ]; then rm "$0.breaks"; sh -c "$last" >/dev/null; echo "Connection reset by peer" >&2; exit 255; fi
if [ -e "$0.no-override" ] && [ "$(id -u)" = 0 ]; then
  exec setpriv --bounding-set=-dac_override,-dac_read_search sh -c "$last"
fi
exec sh -c "$last"
"""


class Controller:
    """A machine that hallmark runs on, with a state folder of its own."""

    def __init__(self, shelves: list[Shelf]) -> None:
        self.told: list[str] = []
        self.lock = Lock(shelves)
        self.records = Records(shelves, self.told.append)

    def journal(self) -> Journal:
        self.records.refresh(self.lock)
        return Journal(self.records.folder / JOURNAL, lambda size, line: self.records.append(size, line, self.lock))

    def put(self, name: str, content: str) -> None:
        path = self.records.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bin" / "ssh"
    path.parent.mkdir()
    path.write_text(_SSH)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.delenv(ssh.VARIABLE, raising=False)
    monkeypatch.setattr(ssh, "_PAUSE", 0.0)
    return path


@pytest.fixture
def shelves(tmp_path: Path, program: Path) -> list[Shelf]:
    return [Shelf(Place(name, f"me@{name}"), str(tmp_path / name), "pair") for name in ("left", "right")]


@pytest.fixture
def controller(tmp_path: Path, shelves: list[Shelf], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Controller]:
    """Gives a controller by name; what is done from then on is done there."""

    def at(name: str, nodes: list[Shelf] = shelves) -> Controller:
        monkeypatch.setenv("HALLMARK_STATE", str(tmp_path / name))
        return Controller(nodes)

    return at


def folder(shelf: Shelf) -> Path:
    return Path(shelf.state) / "clusters" / "pair"


def one_launch(it: Controller) -> None:
    with locked(it.lock, "launch"):
        journal = it.journal()
        it.put("id", "07")
        it.put("plans/r1.json", "{}")
        intent = journal.append(Event.INTENT, 1, kind="launch")
        journal.append(Event.STAGED, 1, intent.operation)


def test_an_entry_is_on_the_head_with_the_files_it_is_about_and_then_on_the_others(
    controller: Callable[..., Controller], shelves: list[Shelf]
) -> None:
    first = controller("first")
    one_launch(first)
    there = folder(shelves[0])
    assert (there / "plans/r1.json").read_text() == "{}"
    assert (there / JOURNAL).read_bytes() == (first.records.folder / JOURNAL).read_bytes()
    assert (there / JOURNAL).stat().st_mode & 0o777 == 0o600
    copy = Path(shelves[1].state) / "copies" / "pair-07"
    assert sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()) == [
        "id",
        JOURNAL,
        "plans/r1.json",
    ]
    assert (copy / JOURNAL).read_bytes() == (there / JOURNAL).read_bytes()
    assert first.told == []


def test_a_second_controller_goes_on_where_the_first_ended(controller: Callable[..., Controller]) -> None:
    one_launch(controller("first"))
    second = controller("second")
    assert [entry.event for entry in second.journal().entries] == ["INTENT", "STAGED"]
    assert (second.records.folder / "plans/r1.json").read_text() == "{}"
    with locked(second.lock, "stop"):
        second.journal().append(Event.STOPPED, 1, 1)
    first = controller("first")
    assert [entry.event for entry in first.journal().entries] == ["INTENT", "STAGED", "STOPPED"]


def test_without_the_lock_nothing_is_written(controller: Callable[..., Controller], shelves: list[Shelf]) -> None:
    first = controller("first")
    one_launch(first)
    first.lock.take("launch")
    journal = first.journal()
    second = controller("second")
    second.lock.take("lock break", second.lock.owners())
    with pytest.raises(Overtaken, match=r"the lock was broken by .*: lock break; this command does nothing more"):
        journal.append(Event.STOPPED, 1, 1)
    assert b"STOPPED" not in (folder(shelves[0]) / JOURNAL).read_bytes()


def test_a_line_that_was_written_before_the_connection_broke_is_written_once(
    controller: Callable[..., Controller], program: Path
) -> None:
    first = controller("first")
    with locked(first.lock, "launch"):
        journal = first.journal()
        program.with_name("ssh.breaks").touch()
        journal.append(Event.INTENT, 1, kind="launch")
        assert not program.with_name("ssh.breaks").exists()
        journal.append(Event.STAGED, 1, 1)
    assert [entry.event for entry in controller("second").journal().entries] == ["INTENT", "STAGED"]


def test_a_command_that_only_reads_meanwhile_takes_nothing_away(controller: Callable[..., Controller]) -> None:
    first = controller("first")
    one_launch(first)
    path = first.records.folder / JOURNAL
    with locked(first.lock, "launch"):
        journal = first.journal()
        before = path.read_bytes()
        intent = journal.append(Event.INTENT, 2, kind="launch")
        # It had read the head before that entry, and comes to write only now.
        path.write_bytes(before)
        first.put("plans/r2.json", "{}")
        controller("first").journal()
        journal.append(Event.STAGED, 2, intent.operation)
    assert [entry.event for entry in controller("first").journal().entries] == ["INTENT", "STAGED"] * 2
    second = controller("second")
    second.journal()
    assert (second.records.folder / "plans/r2.json").exists()


def test_a_torn_last_line_is_written_over(controller: Callable[..., Controller], shelves: list[Shelf]) -> None:
    one_launch(controller("first"))
    path = folder(shelves[0]) / JOURNAL
    path.write_bytes(path.read_bytes() + b'{"seq":3,"torn')
    second = controller("second")
    with locked(second.lock, "stop"):
        second.journal().append(Event.STOPPED, 1, 1)
    assert [entry.event for entry in second.journal().entries] == ["INTENT", "STAGED", "STOPPED"]


def test_a_line_that_somebody_else_wrote_is_not_written_over(
    controller: Callable[..., Controller], shelves: list[Shelf]
) -> None:
    first = controller("first")
    with locked(first.lock, "launch"):
        journal = first.journal()
        path = folder(shelves[0]) / JOURNAL
        path.write_bytes(b"{}\n")
        with pytest.raises(Mismatch, match="somebody else wrote to the journal"):
            journal.append(Event.INTENT, 1, kind="launch")
    assert path.read_bytes() == b"{}\n"


def test_a_full_disk_of_the_head_leaves_the_journal_as_it_was(
    controller: Callable[..., Controller], shelves: list[Shelf], program: Path
) -> None:
    first = controller("first")
    one_launch(first)
    before = (folder(shelves[0]) / JOURNAL).read_bytes()
    full = program.with_name("dd")
    full.write_text(
        "#!/bin/sh\nhead -c 20 >>${1#of=}\necho \"dd: error writing 'x': No space left on device\" >&2\nexit 1\n"
    )
    full.chmod(0o755)
    with locked(first.lock, "stop"):
        with pytest.raises(Refused, match=r"left:.*: the journal cannot be written: No space left on device"):
            first.journal().append(Event.STOPPED, 1, 1)
        assert (folder(shelves[0]) / JOURNAL).read_bytes() == before
        full.unlink()
        first.journal().append(Event.STOPPED, 1, 1)


def test_a_node_that_gets_no_copy_is_told_of_once_and_gets_all_the_next_time(
    controller: Callable[..., Controller], shelves: list[Shelf]
) -> None:
    blocked = Path(shelves[1].state) / "copies"
    blocked.parent.mkdir()
    blocked.touch()
    first = controller("first")
    one_launch(first)
    [told] = first.told
    assert told.startswith("warning: the copy of the history on node right lags behind: ")
    blocked.unlink()
    second = controller("second")
    with locked(second.lock, "stop"):
        second.journal().append(Event.STOPPED, 1, 1)
    copy = blocked / "pair-07"
    assert (copy / JOURNAL).read_bytes() == (folder(shelves[0]) / JOURNAL).read_bytes()
    assert (copy / "plans/r1.json").exists()


def test_a_journal_that_lost_entries_since_it_was_seen_is_not_trusted(
    controller: Callable[..., Controller], shelves: list[Shelf]
) -> None:
    one_launch(controller("first"))
    path = folder(shelves[0]) / JOURNAL
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(Mismatch, match="does not go on from what was seen here before") as found:
        controller("first").journal()
    assert f"left:{shelves[0].state}/clusters/pair/{JOURNAL}" in str(found.value)


@pytest.mark.parametrize("lost", ["records", "head"])
def test_a_head_without_the_history_that_another_node_has_is_not_taken_for_new(
    controller: Callable[..., Controller], shelves: list[Shelf], lost: str
) -> None:
    one_launch(controller("first"))
    nodes = list(shelves)
    if lost == "records":
        (folder(shelves[0]) / JOURNAL).unlink()
    else:
        nodes.reverse()
    with pytest.raises(Mismatch, match=f"node {nodes[0].place.name} has no history, but node {nodes[1].place.name}"):
        controller("second", nodes).journal()


def test_a_file_that_the_head_lost_is_gone_here_too_once_the_lock_is_held(
    controller: Callable[..., Controller], shelves: list[Shelf]
) -> None:
    one_launch(controller("first"))
    (folder(shelves[0]) / "plans/r1.json").unlink()
    first = controller("first")
    first.journal()
    assert (first.records.folder / "plans/r1.json").exists()
    with locked(first.lock, "rollback"):
        first.journal()
    assert not (first.records.folder / "plans/r1.json").exists()


def test_a_head_that_is_not_reached_is_said(controller: Callable[..., Controller], tmp_path: Path) -> None:
    down = Shelf(Place("left", "down@left"), str(tmp_path / "left"), "pair")
    it = controller("first", [down])
    for ask in (it.journal, lambda: it.lock.take("launch")):
        with pytest.raises(Unreachable, match="node left: it refuses SSH connections"):
            ask()


def test_a_head_that_is_this_machine_has_the_records_themselves(
    controller: Callable[..., Controller], shelves: list[Shelf]
) -> None:
    here = Shelf(Place("left", "local"), shelves[0].state, "pair")
    first = controller("first", [here, shelves[1]])
    one_launch(first)
    assert first.records.folder == folder(here)
    assert (Path(shelves[1].state) / "copies/pair-07" / JOURNAL).exists()
    # From elsewhere the same head has an address, and the same lock.
    second = controller("second")
    assert len(second.journal().entries) == 2
    with locked(second.lock, "stop"):
        assert first.lock.head() is not None


def test_a_state_folder_in_the_home_is_found_on_the_node(
    tmp_path: Path, controller: Callable[..., Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    one_launch(controller("first", [Shelf(Place("left", "me@left"), "~/.hallmark", "pair")]))
    assert (tmp_path / "home/.hallmark/clusters/pair" / JOURNAL).exists()


@pytest.mark.parametrize("name", ["../..", "..", ".", "plans", "plans/r1.json"])
def test_a_record_that_cannot_be_read_is_not_taken_for_gone(
    controller: Callable[..., Controller], shelves: list[Shelf], program: Path, name: str
) -> None:
    one_launch(controller("first"))
    here = controller("first")
    # Root may read everything otherwise.
    program.with_name("ssh.no-override").touch()
    path = folder(shelves[0]) / name
    mode = path.stat().st_mode
    with locked(here.lock, "rollback"):
        path.chmod(0)
        try:
            with pytest.raises(
                Refused, match=r"node left: the records cannot be used: .*(Permission denied|can't cd to)"
            ):
                here.journal()
        finally:
            path.chmod(mode)
        assert (here.records.folder / "plans/r1.json").read_text() == "{}"
        here.journal()


def test_a_head_whose_records_a_link_leads_away_to_nowhere_is_not_taken_for_new(
    controller: Callable[..., Controller], shelves: list[Shelf]
) -> None:
    one_launch(controller("first"))
    path = folder(shelves[0])
    path.rename(path.with_name("moved"))
    path.symlink_to("not-mounted")
    with pytest.raises(Refused, match=r"node left: the records cannot be used: .*(No such file|can't cd to)"):
        controller("second").journal()
