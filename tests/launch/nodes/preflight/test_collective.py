"""NCCL measured by nccl-tests: what is run, read and said. Not verified on hardware; outputs are put together from
published ones, and the program is a stand-in."""

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml

from launch.nodes import reach
from launch.nodes.preflight.collective import AllReduce, all_reduce, read
from launch.nodes.preflight.meeting import bandwidth
from launch.nodes.preflight.site import Old, Site, Verdict
from launch.plan.place import Place
from tests.launch.nodes.preflight.test_cases import site
from tests.launch.nodes.recorded import CASES

OUTPUTS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((CASES / "nccl-tests").glob("*.yaml"))}
PROGRAMS = ("all_reduce_perf", "docker", "mpirun", "python3")


def cluster(name: str, *, programs: Sequence[str] = PROGRAMS) -> Site:
    nodes = ("spark-a", "spark-b") if name == "two-spark.example" else ("h200",)
    return site({"cluster": name, "facts": {node: {"programs": tuple(programs)} for node in nodes}})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is run, and the answer to it: `out`, `err` and `status` may be set."""
    told: dict[str, Any] = {"out": "", "err": "", "status": 0, "words": None}

    def run(place: Place, words: Sequence[str], **_: object) -> "subprocess.CompletedProcess[str]":
        told["words"] = place.name, shlex.join(words)
        return subprocess.CompletedProcess(words, told["status"], told["out"], told["err"])

    monkeypatch.setattr(reach, "run", run)
    return told


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_largest_all_reduce_counts(name: str) -> None:
    wanted = OUTPUTS[name]["found"]
    assert read(OUTPUTS[name]["out"]) == (AllReduce(**wanted) if wanted else None)


def test_eight_gpus_of_one_machine_are_measured_by_its_own_program(asked: dict[str, Any]) -> None:
    asked["out"] = OUTPUTS["eight-gpus"]["out"]
    [found] = all_reduce(cluster("h200-8.example"))
    assert asked["words"] == ("h200", "timeout 180 env all_reduce_perf -b 512M -e 512M -g 8 -c 1")
    message = "436.0 GB/s bus bandwidth between 8 GPUs, all-reduce of 537 MB, at least 200 wanted"
    assert (found.verdict, found.message) == (Verdict.PASS, message)


def test_a_machine_without_the_program_asks_its_image(asked: dict[str, Any]) -> None:
    asked["status"] = 127
    [found] = all_reduce(cluster("h200-8.example", programs=["docker"]))
    _, words = asked["words"]
    assert words.startswith("timeout 180 docker run --rm --pull never --network host --gpus all --shm-size ")
    assert words.endswith(f" --entrypoint all_reduce_perf sha256:{'1' * 64} -b 512M -e 512M -g 8 -c 1")
    message = "was not measured: there is no all_reduce_perf on h200 and in its image"
    assert (found.verdict, found.message) == (Verdict.WARN, message)


def test_two_machines_are_measured_by_mpirun_on_the_ranks_own_interfaces(asked: dict[str, Any]) -> None:
    asked["out"] = OUTPUTS["two-ranks-of-mpirun"]["out"]
    [found] = all_reduce(cluster("two-spark.example"))
    node, words = asked["words"]
    assert (node, " mpirun -np 2 --host 192.168.177.11:1,192.168.177.12:1 " in words) == ("spark-a", True)
    assert " -x NCCL_SOCKET_IFNAME=enp1s0f1np1,enp1s0f0np0 " in words
    assert "NCCL_DEBUG" not in words
    assert words.endswith(" all_reduce_perf -b 512M -e 512M -g 1 -c 1")
    assert (found.verdict, found.message) == (
        Verdict.FAIL,
        "2.3 GB/s bus bandwidth between 2 GPUs, all-reduce of 134 MB, 8 wanted",
    )
    assert found.where is not None and "gb10.yaml" in found.where


@pytest.mark.parametrize(
    ("programs", "says"),
    [
        ([], "was not measured: there is no all_reduce_perf on spark-a, spark-b"),
        (["all_reduce_perf_mpi"], "was not measured: there is no mpirun on spark-a"),
    ],
)
def test_what_is_missing_on_several_machines_is_named(asked: dict[str, Any], programs: list[str], says: str) -> None:
    [found] = all_reduce(cluster("two-spark.example", programs=programs))
    assert (found.verdict, found.message, asked["words"]) == (Verdict.WARN, says, None)


def test_a_program_without_mpi_measures_each_machine_alone_which_is_told(asked: dict[str, Any]) -> None:
    asked["out"] = "#  Rank  0 Group  0 Pid 1 on a device 0\n 512 128 float sum -1 1.0 9.9 9.9 0 1.0 9.9 9.9 0\n" * 2
    [found] = all_reduce(cluster("two-spark.example"))
    assert (found.verdict, found.message) == (Verdict.WARN, "was not measured: 1 of 2 GPUs took part")


def test_wrong_values_fail_whatever_the_bandwidth(asked: dict[str, Any]) -> None:
    asked["out"] = OUTPUTS["wrong-values"]["out"]
    [found] = all_reduce(cluster("two-spark.example"))
    assert (found.verdict, found.message) == (Verdict.FAIL, "8 values of an all-reduce of 537 MB were wrong")


def test_a_program_that_fails_is_told_by_its_last_line(asked: dict[str, Any]) -> None:
    asked |= {"out": OUTPUTS["no-result"]["out"], "err": "ORTE was unable to reach spark-b\n\n", "status": 1}
    [found] = all_reduce(cluster("two-spark.example"))
    assert (found.verdict, found.message) == (Verdict.WARN, "was not measured: ORTE was unable to reach spark-b")


@pytest.mark.parametrize(
    ("status", "err", "says"),
    [
        (125, "docker: Error: No such image: x.\nSee 'docker run --help'.\n", "docker: Error: No such image: x."),
        (124, "", "it did not end within 180 s"),
    ],
)
def test_a_measurement_that_did_not_come_about_is_told_by_its_reason(
    asked: dict[str, Any], status: int, err: str, says: str
) -> None:
    asked |= {"err": err, "status": status}
    [found] = all_reduce(cluster("h200-8.example", programs=["docker"]))
    assert (found.verdict, found.message) == (Verdict.WARN, f"was not measured: {says}")


def test_what_serves_is_not_disturbed_by_a_measurement(asked: dict[str, Any]) -> None:
    serves = replace(cluster("two-spark.example"), old=Old("pair/r1", frozenset({29501}), alive=True))
    [found] = all_reduce(serves)
    message = "was not measured: the group serves on these GPUs"
    assert (found.verdict, found.message, asked["words"]) == (Verdict.WARN, message, None)


@pytest.mark.parametrize("alive", [True, False])
def test_who_listens_on_the_master_port_is_not_sent_what_iperf3_says(asked: dict[str, Any], alive: bool) -> None:
    """A stranger, or the store of the ranks that serve."""
    programs = (*PROGRAMS, "iperf3")
    facts = {"spark-a": {"programs": programs, "listeners": [{"port": 29501}]}, "spark-b": {"programs": programs}}
    taken = site({"cluster": "two-spark.example", "facts": facts})
    [found] = bandwidth(replace(taken, old=Old("pair/r1", frozenset({29501}), alive=alive)), None)
    message = f"was not measured: port 29501 of spark-a is in use{' by the group' if alive else ''}"
    assert (found.verdict, found.message, asked["words"]) == (Verdict.WARN, message, None)


def test_one_gpu_has_nothing_to_measure(asked: dict[str, Any]) -> None:
    alone = cluster("two-spark.example")
    assert all_reduce(type(alone)(alone.plan, alone.hardware, alone.cluster, alone.machines[:1])) == []
    assert asked["words"] is None
