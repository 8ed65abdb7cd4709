"""What preflight says of recorded nodes with one thing changed: tests/cases/preflight. Nodes are not verified on
hardware; each file names the case of the field that it is about."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.nodes.preflight.run import checks
from launch.nodes.preflight.site import Found, Machine, Old, Site, Verdict
from launch.plan.group import Subject, plan_group
from recipe.config.check import check_cluster
from recipe.config.paths import CHECKOUT
from tests.launch.nodes.recorded import CASES, changed

FILES = sorted((CASES / "preflight").glob("*.yaml"))
# The second Spark of the example has its cable in the other port.
SECOND = {
    "192.168.177.11": "192.168.177.12",
    "192.168.177.12 192.168.177.12": "192.168.177.11 192.168.177.11",
    "192.168.178.11": "192.168.178.12",
    "c0a8:b10b": "c0a8:b10c",
    "c0a8:b20b": "c0a8:b20c",
    "f0np0": "f9np9",
    "f1np1": "f0np0",
    "f9np9": "f1np1",
    "1s0f0 ": "1s0f9 ",
    "1s0f1 ": "1s0f0 ",
    "1s0f9 ": "1s0f1 ",
    "01:00.0": "01:00.9",
    "01:00.1": "01:00.0",
    "01:00.9": "01:00.1",
}


def site(case: dict[str, Any]) -> Site:
    """The site that a case describes."""
    name = case.get("cluster", "two-spark.example")
    checked = check_cluster(CHECKOUT, name, case.get("profile"))
    changes = case.get("nodes", {})
    nodes = tuple(node.model_copy(update=changes.get(node.name, {})) for node in checked.cluster.value.nodes)
    cluster = replace(checked.cluster, value=checked.cluster.value.model_copy(update={"nodes": nodes}))
    written = checked.profile.value
    update = {
        "serve": {**written.serve, **case.get("serve", {})},
        "env": {**written.env, **case.get("env", {})},
        "container": written.container.model_copy(update=case.get("container", {})),
    }
    profile = replace(checked.profile, value=written.model_copy(update=update))
    plan = plan_group(profile, cluster, Subject("image", "localhost/image:1", "0" * 64, digest="1" * 64))
    machines = []
    for index, rank in enumerate(plan.ranks):
        words = case.get("words", {}).get(rank.name, {})
        facts = case.get("facts", {}).get(rank.name, {})
        recording = "gb10" if checked.hardware.name == "gb10" else "h200"
        first = SECOND if index and recording == "gb10" else {}
        machines.append(Machine(rank.name, changed(recording, {**first, **words}, facts), (rank,)))
    old = case.get("old")
    return Site(
        plan,
        checked.hardware,
        cluster,
        tuple(machines),
        "two-1234",
        Old(old["mark"], frozenset(old.get("ports", ())), old.get("alive", True)) if old else None,
        case.get("lacking", {}),
        case.get("image-env"),
    )


def shown(found: list[Found]) -> list[str]:
    return [
        f"{it.verdict.value} {it.check}: {it.problem.message} — {it.hint}"
        for it in found
        if it.verdict is not Verdict.PASS
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_wrong_is_found_with_its_remedy(path: Path) -> None:
    text = path.read_text()
    if "NAME-OF-RANK-0" in text:
        box = site({}).machines[0].ranks[0].container
        assert box is not None
        text = text.replace("NAME-OF-RANK-0", box.name)
    case = yaml.safe_load(text)
    assert case["about"]
    assert shown(checks(site(case))) == case["expect"]


@pytest.mark.parametrize("cluster", ["two-spark.example", "h200-8.example"])
def test_nodes_as_they_should_be_pass_every_check(cluster: str) -> None:
    found = checks(site({"cluster": cluster}))
    assert shown(found) == []
    assert {it.check for it in found} >= {"architecture", "engine", "gpus", "model", "ports", "shm"}


def test_the_second_spark_of_the_example_is_the_first_with_its_cable_in_the_other_port() -> None:
    first, second = site({}).machines
    for machine, name in ((first, "rocep1s0f1"), (second, "rocep1s0f0")):
        active = [it.name for it in machine.facts.rdma if it.ports[0].state == "ACTIVE"]
        assert name in active and len(active) == 2
