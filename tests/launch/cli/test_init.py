"""`hallmark init`: what it writes for recorded Sparks (a stand-in for looking: not verified on hardware), and for two
real nodes behind SSH."""

import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import yaml

from launch.ledger import init
from launch.nodes import discover, ssh
from launch.nodes.node import NodeFacts
from launch.plan.place import Place
from recipe.config.load import load_cluster
from recipe.config.paths import CHECKOUT
from recipe.errors import Exit
from tests.conftest import possible
from tests.launch.nodes.preflight.test_cases import SECOND
from tests.launch.nodes.recorded import changed
from tests.launch.nodes.spaces import Space, two
from tests.standin.world import World

NODES = ("--node", "spark-a", "--node", "spark-b=nvidia@10.0.0.2")
SPARKS = ("init", "two", *NODES, "--profile", "gb10-nvfp4")


class Terminal(StringIO):
    """Answers that somebody types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def sparks(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, NodeFacts]:
    """Two recorded Sparks in place of machines; the folder of the model is on the first."""
    facts = {"spark-a": changed("gb10", {}, {}), "spark-b": changed("gb10", SECOND, {})}

    def look(place: Place) -> NodeFacts:
        return facts[place.name]

    monkeypatch.setattr(init, "look", look)
    monkeypatch.setattr(init, "models", lambda home, profile, found: "/data/models")
    return facts


def test_a_cluster_of_two_sparks_has_both_halves_of_their_ports(world: World, sparks: object) -> None:
    result = world.run(*SPARKS)
    assert (result.exit, result.out.splitlines()[-1]) == (Exit.OK, "next: hallmark preflight two"), result.err
    written = load_cluster(world.home, "two").value
    example = load_cluster(CHECKOUT, "two-spark.example").value
    assert [(it.fabric, it.interface, it.hca) for it in written.nodes] == [
        (it.fabric, it.interface, it.hca) for it in example.nodes
    ]
    assert [(it.name, it.address) for it in written.nodes] == [("spark-a", "spark-a"), ("spark-b", "nvidia@10.0.0.2")]
    assert (written.profile, written.paths.models, written.ports.api) == ("gb10-nvfp4", "/data/models", 8000)


def test_a_file_that_is_there_is_never_overwritten(world: World, sparks: object) -> None:
    path = world.home / "configs/clusters/two.yaml"
    path.write_text("mine")
    result = world.run(*SPARKS)
    assert (result.exit, path.read_text()) == (Exit.NOT_DONE, "mine")
    assert "two.yaml: is there already, and is never overwritten" in result.err
    assert sorted(it.name for it in path.parent.iterdir()) == ["pair.yaml", "two.yaml"]
    path.unlink()


@pytest.mark.parametrize("wrong", ["file", "profile"])
def test_what_cannot_become_a_file_is_refused_before_anybody_is_asked_or_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setattr(init, "look", lambda place: pytest.fail("a machine was looked at"))
    monkeypatch.setattr(sys, "stdin", Terminal("spark-a spark-b\n"))
    path = world.home / "configs/clusters/two.yaml"
    if wrong == "file":
        path.symlink_to("elsewhere.yaml")
        says = "two.yaml: is there already, and is never overwritten"
    else:
        says = "there is no profile 'nosuch'"
    result = world.run("init", "two", "--profile", "nosuch" if wrong == "profile" else "a")
    assert (result.exit in (1, 2), says in result.err, "Machines" in result.err) == (True, True, False), result.err
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["../../two", "", "A b", ".two", "/etc/two"])
def test_a_name_that_is_none_is_refused_before_anything_is_asked(world: World, sparks: object, name: str) -> None:
    result = world.run("init", name, *SPARKS[2:])
    assert (result.exit, f"NAME: {name!r} is not a name — use a-z" in result.err) == (Exit.USAGE, True)
    assert [it.name for it in world.home.rglob("*two*")] == []


def test_a_fabric_of_one_machine_is_refused(world: World, sparks: object) -> None:
    result = world.run("init", "two", "--node", "spark-a", "--profile", "gb10-nvfp4", "--fabric", "10.0.0.0/8")
    assert (result.exit, "--fabric: one machine has no fabric" in result.err) == (Exit.USAGE, True)


def test_one_machine_gets_no_port_where_ranks_meet(
    world: World, sparks: dict[str, NodeFacts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init, "look", lambda place: changed("h200", {}, {}))
    # Nor is the usual one kept for them.
    words = ("--profile", "h200-fp8-dspark", "--api-port", "29501")
    result = world.run("init", "one", "--node", "local", *words)
    assert result.exit == Exit.OK, result.err
    assert "master" not in (world.home / "configs/clusters/one.yaml").read_text()


def test_a_network_can_be_chosen_and_a_wrong_one_lists_those_that_join(world: World, sparks: object) -> None:
    assert world.run(*SPARKS, "--fabric", "192.168.178.0/24").exit == Exit.OK
    assert load_cluster(world.home, "two").value.nodes[0].fabric == "192.168.178.11"
    result = world.run("init", "three", *SPARKS[2:], "--fabric", "10.1.0.0/16")
    assert (result.exit, "there is 192.168.177.0/24 (192.168.177.11 on enp1s0f1np1, " in result.err) == (1, True)


def test_a_cable_without_addresses_is_told_with_the_command(world: World, sparks: dict[str, NodeFacts]) -> None:
    for name, facts in sparks.items():
        bare = [it.model_copy(update={"networks": ()}) for it in facts.interfaces]
        sparks[name] = facts.model_copy(update={"interfaces": tuple(bare)})
    result = world.run(*SPARKS)
    assert result.exit == Exit.NOT_DONE
    assert "no network joins these nodes" in result.err
    assert "node spark-b: enP2p1s0f0np0 has a cable and no address" in result.err
    assert "sudo ip addr add 192.168.177.12/24 dev" in result.err


def test_a_profile_that_could_be_several_is_asked_for(world: World, sparks: object) -> None:
    result = world.run("init", "two", *NODES)
    assert (result.exit, "--profile: which profile it runs is not clear — one of gb10-fp8, " in result.err) == (1, True)


def test_what_breaks_a_rule_is_not_written(world: World, sparks: object) -> None:
    result = world.run(*SPARKS, "--api-port", "29501")
    assert (result.exit, "two.yaml:" in result.err and "ports.master" in result.err) == (Exit.USAGE, True), result.err
    assert not (world.home / "configs/clusters/two.yaml").exists()


def test_a_broken_rule_is_told_of_the_file_that_was_to_be_whatever_the_current_folder(
    world: World, sparks: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.home.mkdir(exist_ok=True)
    monkeypatch.chdir(world.home)
    result = world.run(*SPARKS, "--api-port", "29501")
    assert result.err.splitlines()[-1].startswith("hallmark: configs/clusters/two.yaml:"), result.err


def test_the_next_command_finds_a_file_that_was_written_here(
    world: World, sparks: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    result = world.run(*SPARKS, "--out", "mine")
    *_, words = result.out.splitlines()
    assert words == "next: hallmark preflight ./mine"
    assert world.run("render", "./mine").exit == Exit.OK


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--node: names no machine"),
        (("--node", "a=x", "--node", "a=y"), "two nodes have the name 'a'"),
        (("--node", "a=x", "--node", "b=x"), "two nodes have the address 'x'"),
    ],
)
def test_machines_that_are_no_cluster_are_refused(world: World, words: tuple[str, ...], says: str) -> None:
    result = world.run("init", "two", *words)
    assert (result.exit, says in result.err) == (Exit.USAGE, True), result.err


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("spark-a", "spark-a"),
        ("nvidia@Spark_B.local", "spark-b.local"),
        ("ssh://root@10.0.0.2:2201", "10.0.0.2"),
        ("local", "local"),
        ("root@fe80::1", "fe80-1"),
    ],
)
def test_a_node_is_called_as_its_host(address: str, name: str) -> None:
    assert init.called(address) == name


@pytest.mark.parametrize("word", ["~/models", "~", "on", "012", "1e3", "22:22", "a: b", "ünï", "a'b\"c", "-x", "# x"])
def test_a_text_is_read_back_as_it_was_written(word: str, tmp_path: Path) -> None:
    from recipe.config.source import read

    file = tmp_path / "x.yaml"
    file.write_text(f"key: {init.quoted(word)}\n")
    assert read(file).data == {"key": word}


def test_who_sits_at_a_terminal_is_asked(world: World, sparks: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("spark-a spark-b=nvidia@10.0.0.2\ngb10-nvfp4\n2\n/my models\n"))
    result = world.run("init", "two")
    assert result.exit == Exit.OK, result.err
    written = load_cluster(world.home, "two").value
    assert (written.profile, written.nodes[0].fabric) == ("gb10-nvfp4", "192.168.178.11")
    assert written.paths.models == "/my models"
    assert "Machines, head first" in result.err and "Machines" not in result.out


def test_who_breaks_off_leaves_no_file_and_may_begin_again(
    world: World, sparks: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of what is typed is told as Ctrl-C is."""
    monkeypatch.setattr(sys, "stdin", Terminal("spark-a spark-b=nvidia@10.0.0.2\ngb10-nvfp4\n"))
    result = world.run("init", "two")
    assert (result.exit, result.err.splitlines()[-1]) == (130, "hallmark: interrupted")
    assert [it.name for it in world.home.rglob("*two*") if "example" not in it.name] == []
    assert world.run(*SPARKS, "--yes").exit == Exit.OK


def test_one_node_needs_no_fabric() -> None:
    assert discover.ways([changed("h200", {}, {}), changed("h200", {}, {})]) == []
    assert init.fabrics([init.Named("a", "a", changed("h200", {}, {}))]) == []


@pytest.fixture
def spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Space, Space]]:
    with possible(), two(tmp_path) as (first, second, config):
        monkeypatch.setenv(ssh.VARIABLE, str(config))
        yield first, second


def test_two_real_nodes_become_a_cluster_that_passes_the_loader(world: World, spaces: tuple[Space, Space]) -> None:
    first, second = spaces
    words = ("--node", first.host, "--node", f"other={second.host}", "--profile", "a", "--json")
    result = world.run("init", "two", *words)
    assert result.exit == Exit.OK, result.err
    assert result.document["nodes"] == [first.host, "other"]
    written = yaml.safe_load((world.home / "configs/clusters/two.yaml").read_text())
    assert written["nodes"] == [
        {"name": first.host, "address": first.host, "fabric": first.address, "interface": first.interface},
        {"name": "other", "address": second.host, "fabric": second.address, "interface": second.interface},
    ]
    assert written["paths"] == {"state": "~/.hallmark", "models": "~/models"}


def test_the_folder_of_the_model_is_found_on_the_node(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    monkeypatch.setenv("HOME", str(user))
    here = [init.Named("here", "local", changed("h200", {}, {}))]
    assert init.models(world.home, "a", here) == "~/models"
    for folder in (".hallmark/models", "models"):
        (user / folder / "tiny").mkdir(parents=True)
        (user / folder / "tiny" / "config.json").write_text("{}")
        assert init.models(world.home, "a", here) == f"~/{folder}"
