"""Facts of nodes: of this machine over real SSH from namespaces, and of recorded ones."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launch.nodes import ssh
from launch.nodes.look import look
from launch.nodes.node import NodeFacts
from launch.nodes.parse import parse
from launch.nodes.preflight import meeting, network
from launch.nodes.preflight.run import survey
from launch.nodes.preflight.site import Site, Verdict
from launch.plan.group import Subject, plan_group
from launch.plan.place import Place
from recipe.config.check import check_cluster
from recipe.errors import Refused, Unreachable
from scripts.engines.packages import program
from tests.conftest import possible
from tests.launch.nodes.recorded import changed, text
from tests.launch.nodes.spaces import Space, two
from tests.standin.world import World

HERE = Place("here", "local")


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Space, Space, Path]]:
    with possible(), two(tmp_path_factory.mktemp("spaces")) as made:
        yield made


@pytest.fixture
def reached(spaces: tuple[Space, Space, Path], monkeypatch: pytest.MonkeyPatch) -> tuple[Space, Space]:
    monkeypatch.setenv(ssh.VARIABLE, str(spaces[2]))
    return spaces[:2]


@pytest.fixture
def site(world: World, reached: tuple[Space, Space]) -> Site:
    """The world's cluster on both spaces."""
    nodes = [
        {"name": space.host, "address": space.host, "fabric": space.address, "interface": space.interface}
        for space in reached
    ]
    world.cluster(engine="docker", nodes=nodes, paths={"state": str(world.node), "models": str(world.models)})
    checked = check_cluster(world.home, "pair", None)
    plan = plan_group(checked.profile, checked.cluster, Subject("image", "x:1", None, digest="0" * 64))
    return survey(plan, checked.hardware, checked.cluster)


def test_this_machine_says_what_it_is() -> None:
    found = look(HERE, folders=["/", "~/not-there"])
    assert (found.system, found.machine, found.user) == ("Linux", os.uname().machine, os.getuid())
    assert 0 < found.memory_free <= found.memory_available <= found.memory_total
    assert abs(found.skew or 9) < 5 and found.doubt < 30
    assert {"127.0.0.1"} <= {address for it in found.interfaces for address in it.addresses if it.name == "lo"}
    assert [it.folder for it in found.disks] == ["/", f"{Path.home()}/not-there"]
    assert found.model is None and found.engine is None


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.2"), (socket.AF_INET6, "::1")])
@pytest.mark.parametrize("ss", [True, False])
def test_who_listens_is_told_with_its_process(
    family: socket.AddressFamily, address: str, ss: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ss:
        # One that is too old for what it is asked.
        (tmp_path / "ss").write_text("#!/bin/sh\nexit 255\n")
        (tmp_path / "ss").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with socket.socket(family) as server:
        try:
            server.bind((address, 0))
        except OSError:
            pytest.skip(f"{address} does not exist here")
        server.listen()
        port = server.getsockname()[1]
        found = look(HERE, ports=[port])
    # Somebody else may listen on that port of another address.
    assert os.getpid() in [it.pid for it in found.listeners if it.port == port]
    process = found.process(os.getpid())
    assert process is not None and Path(sys.executable).name[:6] in process.command


def test_a_model_is_told_file_by_file_with_links_that_leave_it(tmp_path: Path) -> None:
    """D9: what a mount of the folder does not show is told with its end."""
    folder, cache = tmp_path / "model with blanks", tmp_path / "cache"
    (folder / "sub").mkdir(parents=True)
    cache.mkdir()
    (cache / "blob").write_text("12345")
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "ünïcode.bin").write_bytes(b"x" * 10)
    (folder / "inside").symlink_to("config.json")
    (folder / "outside.safetensors").symlink_to(cache / "blob")
    (folder / "nowhere.safetensors").symlink_to(cache / "gone")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "b.safetensors", "c": "b.safetensors"}}')
    hub = folder / ".cache/huggingface/download"
    hub.mkdir(parents=True)
    (hub / "config.json.metadata").write_text("0123abc\netag\n1.0\n")
    found = look(HERE, model=str(folder)).model
    assert found is not None
    assert {file.path: file.size for file in found.files} == {
        "config.json": 2,
        "inside": 2,
        "outside.safetensors": 5,
        "sub/ünïcode.bin": 10,
        "model.safetensors.index.json": 60,
    }
    assert found.outside == {"outside.safetensors": str(cache / "blob"), "nowhere.safetensors": None}
    assert (found.shards, found.revision) == (("b.safetensors",), "0123abc")
    assert {file.owner for file in found.files} == {os.getuid()}
    # What Hallmark fetched itself says so; that counts.
    (folder / ".hallmark-model.json").write_text('{"repository": "a/b", "revision": "fedcba98", "files": []}')
    again = look(HERE, model=str(folder)).model
    assert again is not None and (again.revision, again.files) == ("fedcba98", found.files)


def test_a_node_is_looked_at_in_one_command(reached: tuple[Space, Space], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    run = ssh._attempt

    def counted(place: Place, *words: Any) -> "subprocess.CompletedProcess[str]":
        asked.append(place.name)
        return run(place, *words)

    monkeypatch.setattr(ssh, "_attempt", counted)
    look(
        Place("far", reached[0].host),
        engine="docker",
        image="x",
        model="/proc/self/fdinfo",
        peers=["10.0.0.1"],
        folders=["/"],
    )
    assert asked == ["far"]


def test_a_node_behind_ssh_has_its_own_interfaces_and_ways(reached: tuple[Space, Space]) -> None:
    first, second = reached
    found = look(Place("first", first.host), peers=[second.address, "203.0.113.7"])
    [cable] = [it for it in found.interfaces if it.name == first.interface]
    assert (cable.addresses[0], cable.mtu, cable.state) == (first.address, 1500, "up")
    assert second.interface not in {it.name for it in found.interfaces}
    assert found.routes == {second.address: first.interface, "203.0.113.7": None}


def test_nodes_on_one_cable_fit_together(site: Site) -> None:
    found = [*network.interfaces(site), *network.routes(site), *network.mtu(site), *meeting.master_port(site)]
    assert [it.message for it in found if it.verdict is not Verdict.PASS] == []
    assert {it.check for it in found} == {"interface", "mtu", "master-port"}


def test_a_different_mtu_on_one_end_is_found(site: Site, reached: tuple[Space, Space]) -> None:
    first, second = reached
    second.run("ip", "link", "set", second.interface, "mtu", "9000")
    try:
        [found] = network.mtu(survey(site.plan, site.hardware, site.cluster))
    finally:
        second.run("ip", "link", "set", second.interface, "mtu", "1500")
    assert found.problem.message == (f"node {first.host}: {first.interface} has MTU 1500, {second.host} has 9000")


def test_a_cable_that_is_out_is_found(
    site: Site, reached: tuple[Space, Space], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = reached
    monkeypatch.setattr(meeting, "_SECONDS", 1)
    first.run("ip", "link", "set", first.interface, "down")
    try:
        after = survey(site.plan, site.hardware, site.cluster)
        told = [it.problem.message for it in network.interfaces(after) if it.verdict is Verdict.FAIL]
        tried = [it.message for it in meeting.master_port(after)]
    finally:
        first.run("ip", "link", "set", first.interface, "up")
    assert told == [
        f"node {reached[0].host}: {first.interface} is down",
        f"node {reached[1].host}: {reached[1].interface} is down",
    ]
    [one] = tried
    assert one.startswith(f"does not reach {first.address}:")


def test_bandwidth_is_measured_and_held_against_a_bar(
    site: Site, reached: tuple[Space, Space], monkeypatch: pytest.MonkeyPatch
) -> None:
    with possible():
        program("iperf3", "iperf3")
    monkeypatch.setattr(meeting, "_MEASURE_SECONDS", 1)
    fresh = survey(site.plan, site.hardware, site.cluster)
    [found] = meeting.bandwidth(fresh, 0.001)
    assert (found.verdict, f"Gbit/s to {reached[0].host} over TCP" in found.message) == (Verdict.PASS, True), found
    [found] = meeting.bandwidth(fresh, 1e6)
    assert (found.verdict, found.message.endswith("1e+06 wanted")) == (Verdict.FAIL, True), found


def test_bandwidth_without_the_program_is_not_measured_and_said(site: Site) -> None:
    bare = [type(it)(it.name, it.facts.model_copy(update={"programs": ("python3",)}), it.ranks) for it in site.machines]
    [found] = meeting.bandwidth(type(site)(site.plan, site.hardware, site.cluster, tuple(bare)), None)
    assert (found.verdict, found.message) == (
        Verdict.WARN,
        f"was not measured: there is no iperf3 on {bare[0].name}, {bare[1].name}",
    )


def test_words_of_iperf3_that_are_no_result_are_its_error() -> None:
    assert meeting.read_iperf('{\n"error": "unable to connect"\n}\n') == (None, "unable to connect")
    assert meeting.read_iperf("") == (None, "iperf3 said nothing")
    document = '{"end": {"sum_received": {"bits_per_second": 2e9}}}'
    assert meeting.read_iperf(document) == (2.0, "")


def test_a_node_whose_shell_does_not_come_to_the_end_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launch.nodes.look._script", lambda: "echo sh: awk: not found >&2; exit 1")
    with pytest.raises(Unreachable, match="node here could not be looked at: sh: awk: not found"):
        look(HERE)


def test_names_that_look_like_lines_of_the_script_are_no_facts(tmp_path: Path) -> None:
    for name in ("config.json", "a\nb", "x\u2028@ engine-error", "x\n@ end"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "l\n1 2 y").symlink_to("/nowhere")
    found = look(HERE, model=str(tmp_path))
    assert found.model is not None
    assert [file.path for file in found.model.files] == ["config.json", "x\u2028@ engine-error"]
    assert (found.model.outside, found.engine) == ({}, None)


@pytest.mark.parametrize("memory", ["[N/A], [N/A], [N/A]", "N/A, N/A, N/A", "[Not Supported], [Not Supported], [N/A]"])
def test_memory_that_a_gpu_does_not_tell_is_the_machines(memory: str) -> None:
    """F2: a GB10 in the words that versions of nvidia-smi have for it."""
    found = changed("gb10", {"[N/A], [N/A], [N/A]": memory}, {})
    assert (found.unified, len(found.gpus), found.gpus[0].name) == (True, 1, "NVIDIA GB10")
    assert found.memory_total == 127600748 * 1024


def test_a_gpu_with_memory_of_its_own_is_read_as_a_real_h200_wrote_it() -> None:
    """F2: the line is nvidia-smi's on one real H200."""
    found = parse(text("h200"))
    first = found.gpus[0]
    assert (found.unified, len(found.gpus)) == (False, 8)
    assert (first.name, first.capability, first.driver) == ("NVIDIA H200", "9.0", "580.159.04")
    assert (first.total, first.used, first.free) == (143771 * 2**20, 0, 143156 * 2**20)


@pytest.mark.parametrize("said", ["", "No devices were found", "NVIDIA-SMI has failed"])
def test_words_of_nvidia_smi_that_are_no_gpus_are_its_error(said: str) -> None:
    """F2: empty output is an error in words, and no exception."""
    line = " 0, GPU-00000000-0000-0000-0000-000000000010, NVIDIA GB10, 12.1, 580.95.05, [N/A], [N/A], [N/A]"
    found = changed("gb10", {line: f" {said}"}, {})
    assert (found.gpus, found.gpu_error) == ((), said or "nvidia-smi said nothing")


def test_the_devices_of_a_spark_are_read_with_interfaces_and_addresses() -> None:
    found = parse(text("gb10"))
    device = next(it for it in found.rdma if it.name == "rocep1s0f1")
    assert (device.slot, sorted(device.netdevs)) == ("0000:01:00.1", ["enp1s0f1np1"])
    [port] = device.ports
    assert (port.state, port.layer, port.rate) == ("ACTIVE", "Ethernet", "200 Gb/sec (4X HDR)")
    assert [(gid.index, gid.kind) for gid in port.gids][-1] == (3, "RoCE v2")
    assert [it.name for it in network.twins(device, found)] == ["roceP2p1s0f1"]


def test_facts_survive_as_a_document() -> None:
    found = parse(text("gb10"), 0.5, 0.1)
    assert NodeFacts.model_validate_json(found.model_dump_json()) == found


def test_namespaces_that_are_not_allowed_are_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = tmp_path / "ip"
    fails.write_text("#!/bin/sh\necho 'Operation not permitted' >&2\nexit 1\n")
    fails.chmod(0o755)
    monkeypatch.setattr("tests.launch.nodes.spaces.program", lambda name, package: str(fails) if name == "ip" else name)
    with pytest.raises(Refused, match="Operation not permitted"), two(tmp_path):
        pass


@pytest.mark.parametrize("answers", ["none", "info"])
def test_an_engine_that_hangs_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str) -> None:
    """Also where it hangs only once it is asked for its containers."""
    # So that it is given up sooner than after 15 s.
    hangs = f"[ $1 != {answers} ] || exec printf '/root\\n{{}}\\n{{}}\\n'\nexec sleep 60"
    for name, script in (("docker", hangs), ("timeout", 'shift\nexec /usr/bin/timeout 0.2 "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found = look(HERE, engine="docker").engine
    assert found is not None and found.error == "it did not answer within 15 s"
