"""Units of systemd: what is written, and what is there after one that systemd would not take. systemctl is a StandIn,
because no test machine is booted with systemd."""

from pathlib import Path

import pytest

from launch.ledger import service
from launch.nodes import systemd
from launch.nodes.systemd import Manager
from launch.plan.unit import unquoted, word
from recipe.errors import HallmarkError, Refused
from tests.standin.world import World

NAME = "hallmark-watch-pair.service"
_SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$0.asked"
case "$*" in *"$(cat "$0.fails" 2>/dev/null || echo NONE)"*) echo "Failed: unit is masked" >&2; exit 1 ;; esac
"""


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The StandIn; what stands in `systemctl.fails` fails, `systemctl.asked` has what it was asked."""
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(_SYSTEMCTL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setattr(systemd, "_RUNS", tmp_path)
    return program


@pytest.fixture
def manager(tmp_path: Path, systemctl: Path) -> Manager:
    return Manager(tmp_path / "units", True, None)


def asked(systemctl: Path) -> list[str]:
    log = systemctl.with_name("systemctl.asked")
    found = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return found


def test_a_unit_is_written_enabled_and_started_and_a_second_time_only_made_sure_of(
    manager: Manager, systemctl: Path
) -> None:
    assert manager.install(NAME, "one") is True
    assert asked(systemctl) == ["--user daemon-reload", f"--user enable {NAME}", f"--user restart {NAME}"]
    assert manager.install(NAME, "one") is False
    assert asked(systemctl) == [f"--user enable --now {NAME}"]
    assert [it.name for it in manager.folder.iterdir()] == [NAME]
    assert manager.remove(NAME) is True
    assert asked(systemctl) == [f"--user disable --now {NAME}", "--user daemon-reload"]
    assert (manager.remove(NAME), list(manager.folder.iterdir())) == (False, [])


@pytest.mark.parametrize("fails", ["daemon-reload", "enable", "restart"])
def test_a_unit_that_systemd_does_not_take_leaves_what_was_there(manager: Manager, systemctl: Path, fails: str) -> None:
    systemctl.with_name("systemctl.fails").write_text(fails)
    with pytest.raises(Refused, match=f"systemctl --user {fails}.*: Failed: unit is masked"):
        manager.install(NAME, "one")
    assert list(manager.folder.iterdir()) == []
    assert f"--user disable --now {NAME}" in asked(systemctl)
    (manager.folder / NAME).write_text("before")
    with pytest.raises(Refused, match="Failed: unit is masked"):
        manager.install(NAME, "one")
    assert [it.read_text() for it in manager.folder.iterdir()] == ["before"]
    # What watched before goes on, and is still enabled.
    last = asked(systemctl)
    assert (last[-1], [it for it in last if "disable" in it]) == (f"--user restart {NAME}", [])


def test_without_systemd_it_says_what_to_do(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd, "_RUNS", Path("/nowhere"))
    with pytest.raises(Refused, match="systemd does not run on this machine — start `hallmark watch`"):
        manager.install(NAME, "one")
    assert not manager.folder.exists()


@pytest.mark.parametrize("text", ["/a/b.yaml", '/a "b"/c\\d.yaml', "/100 %/$HOME/$$.yaml"])
def test_a_word_of_a_unit_is_read_back(text: str) -> None:
    assert unquoted(word(text)[1:-1]) == text


@pytest.fixture
def installed(world: World, manager: Manager) -> Manager:
    world.patches.setattr(systemd, "manager", lambda: manager)
    return manager


def test_a_service_finds_the_records_of_the_shell_that_installed_it(installed: Manager, world: World) -> None:
    """A service starts in another folder and without the shell's variables."""
    world.patches.setenv("XDG_STATE_HOME", "/xdg/state")
    world.patches.setenv("HALLMARK_STATE", "state here")
    world.patches.chdir(world.home)
    found = world.done("service", "install", "pair")
    text = Path(found["file"]).read_text()
    assert f'\nEnvironment="HALLMARK_STATE={world.home}/state here"\n' in text
    assert '\nEnvironment="XDG_STATE_HOME=/xdg/state"\n' in text
    assert world.done("service", "install", "pair")["changed"] is False


def test_two_clusters_of_one_name_do_not_take_each_others_service(
    installed: Manager, world: World, tmp_path: Path
) -> None:
    world.done("service", "install", "pair")
    text = installed.text(NAME)
    other = tmp_path / "other" / "pair.yaml"
    other.parent.mkdir()
    written = (world.home / "configs/clusters/pair.yaml").read_text()
    other.write_text(written.replace("profile: a", f"profile: {world.home}/configs/profiles/a.yaml"))
    result = world.run("service", "install", str(other))
    own = world.home / "configs/clusters/pair.yaml"
    assert (result.exit, f"watches the cluster of another file: {own}" in result.err) == (2, True), result.err
    result = world.run("service", "remove", str(other))
    assert (result.exit, f"`hallmark service remove {own}` takes it away" in result.err) == (2, True), result.err
    assert installed.text(NAME) == text
    # Its file is gone, as after a move of the checkout.
    own.unlink()
    assert world.done("service", "install", str(other))["changed"] is True


@pytest.mark.parametrize("file", ["other.yml", "other"])
def test_a_service_of_a_file_with_another_ending_is_removed(
    installed: Manager, world: World, tmp_path: Path, file: str
) -> None:
    other = tmp_path / file
    written = (world.home / "configs/clusters/pair.yaml").read_text()
    other.write_text(written.replace("profile: a", f"profile: {world.home}/configs/profiles/a.yaml"))
    world.done("service", "install", str(other))
    assert world.done("service", "remove", str(other))["changed"] is True


def test_a_service_is_removed_also_when_its_cluster_has_no_file_any_more(installed: Manager, world: World) -> None:
    world.done("service", "install", "pair")
    (world.home / "configs/clusters/pair.yaml").rename(world.home / "pair.old")
    assert world.done("service", "remove", "pair")["changed"] is True
    result = world.run("service", "remove", "pair")
    assert (result.exit, "there is no cluster 'pair'" in result.err) == (1, True)
    (world.home / "pair.old").rename(world.home / "configs/clusters/pair.yaml")
    assert world.done("service", "remove", "pair")["changed"] is False
    assert list(installed.folder.iterdir()) == []


def test_a_head_that_is_another_machine_gets_no_service_from_here(installed: Manager, world: World) -> None:
    nodes = [
        {"name": "left", "address": "user@far", "fabric": "10.0.0.1"},
        {"name": "right", "address": "user@near", "fabric": "10.0.0.2"},
    ]
    world.cluster("far", engine="docker", nodes=nodes, paths={"state": "/s", "models": "/m"})
    result = world.run("service", "install", "far", "--dry-run")
    says = "the watch runs on the head, and left (user@far) is another machine"
    assert (result.exit, says in result.err) == (2, True), result.err
    with pytest.raises(HallmarkError, match="there is no cluster 'none'"):
        service.remove(world.home, "none", installed)
