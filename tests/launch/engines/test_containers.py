"""The docker engine on nodes that are a record of what they were asked; real engines are in tests/launch/ledger."""

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from launch.engines.base import Look
from launch.engines.containers import DockerEngine, differences, ended
from launch.nodes import reach
from launch.plan.container import Adopted, Container, Mount
from launch.plan.group import GroupPlan, RankPlan, Subject
from launch.plan.place import Place
from recipe.config.models import Gates
from recipe.errors import NeedsOperator, Refused, Unreachable

T = TypeVar("T")
S = TypeVar("S")
GROUP = "pair-01/r3"


class Nodes:
    """Answers docker's commands as the nodes' engines would; `containers` are by node, with what inspect says."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.secrets: list[Mapping[str, str]] = []
        self.containers: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
        self.stubborn = False
        self.told: list[str] = []
        # By command the seconds after which its answer is waited for no longer.
        self.deadlines: dict[str, float | None] = {}
        # Commands that are asked again when the connection breaks.
        self.repeated: set[str] = set()
        # Nodes that are not reached, and by command how often the connection breaks after it was run.
        self.down: set[str] = set()
        self.breaks: dict[str, int] = {}
        # By process id, the line of look.awk.
        self.seen: dict[str, str] = {}

    def answer(
        self, place: Place, *words: str, seconds: float | None = 0, through: Sequence[str] = ()
    ) -> "subprocess.CompletedProcess[str]":
        return self.run(place, (*through, *place.docker(*words)))

    def home(self, place: Place) -> str:
        return "/home/me"

    def each(self, ask: Callable[[T], S], of: Iterable[T]) -> list[S]:
        return [ask(it) for it in of]

    def run(
        self,
        place: Place,
        argv: Sequence[str],
        *,
        variables: Mapping[str, str] | None = None,
        seconds: float | None = 60,
        once: bool = False,
    ) -> "subprocess.CompletedProcess[str]":
        self.asked.append((place.name, *argv))
        self.repeated |= set() if once else {argv[0]}
        if place.name in self.down:
            raise Unreachable(f"node {place.name}: it refuses SSH connections")
        if argv[0] == "awk":
            return subprocess.CompletedProcess(argv, 0, self.seen.get(argv[2].removeprefix("root="), ""), "")
        return subprocess.CompletedProcess(argv, 0, "2026-12-01T00:00:01Z a line\n", "")

    def docker(
        self,
        place: Place,
        *words: str,
        variables: Mapping[str, str] | None = None,
        seconds: float | None = 0,
        once: bool = False,
    ) -> str:
        self.asked.append((place.name, *words))
        self.repeated |= set() if once else {words[0]}
        self.secrets.append(variables or {})
        self.deadlines[words[0]] = seconds
        if place.name in self.down:
            raise Unreachable(f"node {place.name}: it refuses SSH connections")
        answer = getattr(self, f"_{words[0]}")(place.name, list(words[1:])) or ""
        if self.breaks.get(words[0], 0):
            self.breaks[words[0]] -= 1
            raise Unreachable(f"node {place.name}: the connection broke")
        return str(answer)

    def add(self, node: str, group: str | None, rank: int, *, running: bool = True) -> dict[str, Any]:
        labels = {"dev.hallmark.rank": str(rank)} | ({"dev.hallmark.group": group} if group else {})
        number = sum(map(len, self.containers.values()))
        state = {"Running": running, "StartedAt": "2026-12-01T00:00:00Z", "Paused": False, "Pid": 100 + number}
        made = {"Id": f"id{number}", "Labels": labels, "State": state, "Image": "sha256:1", "Config": {}}
        self.containers[node].append(made)
        return made

    def _ps(self, node: str, words: list[str]) -> str:
        filters = [words[place + 1] for place, word in enumerate(words) if word == "--filter"]
        found = self.containers[node]
        for label in (it.removeprefix("label=") for it in filters if it.startswith("label=")):
            name, equals, value = label.partition("=")
            found = [it for it in found if name in it["Labels"] and (not equals or it["Labels"][name] == value)]
        wanted = {it.removeprefix("id=") for it in filters if it.startswith("id=")}
        found = [it for it in found if not wanted or it["Id"] in wanted]
        if "status=exited" in filters:
            found = [it for it in found if not it["State"]["Running"]]
        elif "--all" not in words:
            found = [it for it in found if it["State"]["Running"]]
        if "--quiet" in words:
            return "\n".join(it["Id"] for it in found)
        text = words[words.index("--format") + 1]
        lines = []
        for it in found:
            line = text.replace("{{.ID}}", it["Id"])
            for name, value in it["Labels"].items():
                line = line.replace(f'{{{{.Label "{name}"}}}}', value)
            lines.append(line)
        return "\n".join(lines)

    def _inspect(self, node: str, words: list[str]) -> str:
        return json.dumps([it for it in self.containers[node] if it["Id"] == words[0]])

    def _run(self, node: str, words: list[str]) -> None:
        pairs = [words[place + 1].partition("=") for place, word in enumerate(words) if word == "--label"]
        labels = {name: value for name, _, value in pairs}
        self.add(node, labels["dev.hallmark.group"], int(labels["dev.hallmark.rank"]))

    def _start(self, node: str, words: list[str]) -> None:
        for it in self.containers[node]:
            it["State"]["Running"] |= it["Id"] in words

    def _stop(self, node: str, words: list[str]) -> None:
        for it in self.containers[node]:
            it["State"]["Running"] &= it["Id"] not in words or self.stubborn

    def _rm(self, node: str, words: list[str]) -> None:
        self.containers[node] = [it for it in self.containers[node] if it["Id"] not in words]


def rank(number: int, node: str) -> RankPlan:
    box = Container(
        name=f"hallmark-pair-r{number}-abc",
        image="sha256:1",
        mounts=(Mount("~/models/m", "/m", read_only=True), Mount("~/cache", "/root/.cache")),
        devices=(),
        cap_add=(),
        ulimits={},
        shm_size="16g",
        gpus=None,
        labels={"dev.hallmark.rank": str(number)},
    )
    return RankPlan(node, number, f"host-{node}", None, ("vllm", "serve", "/m"), {"A": "1"}, {}, box, {})


PLAN = GroupPlan(
    "pair",
    "docker",
    "p",
    (rank(0, "a"), rank(1, "b")),
    "http://a:1",
    "m",
    Subject("image", "x", None),
    Gates(trial=(), certify=()),
)


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def engine(nodes: Nodes) -> DockerEngine:
    return DockerEngine([rank.place for rank in PLAN.ranks], nodes, nodes.told.append)


def test_workers_start_first_with_their_folders_made_and_the_groups_label(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path
) -> None:
    engine.start(PLAN, GROUP, tmp_path)
    acts = [it for it in nodes.asked if it[1] in ("mkdir", "run")]
    assert [it[:2] for it in acts] == [("b", "mkdir"), ("b", "run"), ("a", "mkdir"), ("a", "run")]
    assert acts[0] == ("b", "mkdir", "-p", "--", "/home/me/cache")
    assert f"dev.hallmark.group={GROUP}" in acts[1]
    assert acts[1][acts[1].index("--name") + 1] == "hallmark-pair-r1-abc.r3"
    assert [(it.rank, it.alive) for it in engine.ranks(PLAN, GROUP)] == [(0, True), (1, True)]
    assert engine.groups("pair-01", []) == {GROUP}
    assert engine.groups("pair-0", []) == set()


def test_a_stopped_container_of_the_group_is_started_again(engine: DockerEngine, nodes: Nodes, tmp_path: Path) -> None:
    engine.start(PLAN, GROUP, tmp_path)
    engine.stop(PLAN, GROUP, 30)
    assert [it.alive for it in engine.ranks(PLAN, GROUP)] == [False, False]
    engine.start(PLAN, GROUP, tmp_path)
    assert [it[1] for it in nodes.asked].count("run") == 2
    assert [it.alive for it in engine.ranks(PLAN, GROUP)] == [True, True]


def test_a_secret_is_given_beside_the_command(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "hidden")
    ranks = tuple(replace(it, secrets={"VLLM_API_KEY": "env:THE_KEY"}) for it in PLAN.ranks)
    engine.start(replace(PLAN, ranks=ranks), GROUP, tmp_path)
    assert {"VLLM_API_KEY": "hidden"} in nodes.secrets
    assert "hidden" not in str(nodes.asked)


def test_other_containers_are_neither_stopped_nor_removed(engine: DockerEngine, nodes: Nodes) -> None:
    for group in (None, "pair-02/r3", "pair-01/r4"):
        nodes.add("a", group, 0)
        nodes.add("b", group, 1, running=False)
    mine = nodes.add("a", GROUP, 0)
    engine.stop(PLAN, GROUP, 30)
    assert [it[2:] for it in nodes.asked if it[1] == "stop"] == [("--time", "30", mine["Id"])]
    engine.tidy("pair-01", {"pair-01/r4"}, [])
    assert [it["Labels"].get("dev.hallmark.group") for it in nodes.containers["a"]] == [
        None,
        "pair-02/r3",
        "pair-01/r4",
    ]
    assert len(nodes.containers["b"]) == 3


@pytest.mark.parametrize("patience", [30, 90, 600])
def test_b3_an_answer_to_a_stop_is_waited_for_longer_than_the_ranks_may_take(
    engine: DockerEngine, nodes: Nodes, patience: int
) -> None:
    nodes.add("a", GROUP, 0)
    engine.stop(PLAN, GROUP, patience)
    deadline = nodes.deadlines["stop"]
    assert deadline is not None and deadline > patience + 30


def adopted(ids: list[str]) -> GroupPlan:
    """The plan of a group that was started by hand in these containers."""
    boxes = [
        replace(it.container, adopted=Adopted(name, ()))
        for it, name in zip(PLAN.ranks, ids, strict=True)
        if it.container
    ]
    return replace(PLAN, ranks=tuple(replace(it, container=box) for it, box in zip(PLAN.ranks, boxes, strict=True)))


def test_of_containers_without_labels_only_adopted_ones_are_touched_by_their_ids(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path
) -> None:
    mine = [nodes.add(node, None, number)["Id"] for number, node in enumerate("ab")]
    other = nodes.add("a", None, 0)
    plan = adopted(mine)
    assert [it.alive for it in engine.ranks(plan, GROUP)] == [True, True]
    engine.stop(plan, GROUP, 30)
    assert sorted(it[4:] for it in nodes.asked if it[1] == "stop") == [(mine[0],), (mine[1],)]
    assert [it.alive for it in engine.ranks(plan, GROUP)] == [False, False]
    assert other["State"]["Running"]
    engine.tidy("pair-01", set(), [plan])
    engine.start(plan, GROUP, tmp_path)
    assert [it for it in nodes.asked if it[1] in ("run", "start")] == [("b", "start", mine[1]), ("a", "start", mine[0])]


def test_an_adopted_container_that_is_gone_is_made_again_and_found_by_its_labels(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path
) -> None:
    there = nodes.add("a", None, 0, running=False)["Id"]
    plan = adopted([there, "gone"])
    engine.start(plan, GROUP, tmp_path)
    assert [it[:2] for it in nodes.asked if it[1] in ("run", "start")] == [("b", "run"), ("a", "start")]
    assert [it.alive for it in engine.ranks(plan, GROUP)] == [True, True]
    engine.stop(plan, GROUP, 30)
    assert [it.alive for it in engine.ranks(plan, GROUP)] == [False, False]


def test_a_container_that_cannot_be_ended_needs_a_person(engine: DockerEngine, nodes: Nodes) -> None:
    nodes.add("b", GROUP, 1)
    nodes.stubborn = True
    with pytest.raises(NeedsOperator, match="node b: containers id0 cannot be ended"):
        engine.stop(PLAN, GROUP, 1)


def test_only_what_a_rank_wrote_since_its_start_is_collected(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path
) -> None:
    nodes.add("a", GROUP, 0)
    engine.collect(PLAN, GROUP, tmp_path / "logs")
    assert (tmp_path / "logs" / "a.log").read_text() == "a line\n"
    assert not (tmp_path / "logs" / "b.log").exists()
    assert (tmp_path / "logs" / "a.times").read_text() == "2026-12-01T00:00:01Z\n"
    [asked] = [it for it in nodes.asked if "logs" in it]
    assert asked[asked.index("--since") + 1] == "2026-12-01T00:00:00Z"


def test_a_copy_of_an_earlier_log_is_not_taken_for_that_of_a_container_that_is_gone(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path
) -> None:
    """G3: the file of an earlier collection stays, and whoever reads it is told that it is not of this start."""
    nodes.add("a", GROUP, 0)
    (tmp_path / "b.log").write_text("Application startup complete")
    assert engine.collect(PLAN, GROUP, tmp_path) == {"a"}


def test_a_look_asks_the_engine_once_and_the_kernel_from_then_on(engine: DockerEngine, nodes: Nodes) -> None:
    nodes.add("a", GROUP, 0)
    nodes.add("b", GROUP, 1)
    nodes.seen = {"100": "100 7 150 1 0", "101": "101 8 30 0 frozen"}
    wanted = [
        Look("a", 0, alive=True, spent=1.5, disk=True),
        Look("b", 1, alive=True, held="its container is paused", spent=0.3),
    ]
    assert engine.look(PLAN, GROUP) == [replace(it, unanswered=()) for it in wanted]
    asked = [it[1] for it in nodes.asked].count("inspect")
    assert engine.look(PLAN, GROUP) == wanted
    assert [it[1] for it in nodes.asked].count("inspect") == asked
    # The others' ranks would wait for a node that is asked once more.
    assert nodes.repeated == set()
    # Another process has the number by now, and the engine says that the container ended.
    nodes.seen["101"] = "101 9 1 0 0"
    nodes.containers["b"][0]["State"]["Running"] = False
    assert engine.look(PLAN, GROUP)[1] == Look("b", 1, alive=False, why="its container ended with exit code 0")


def test_a_look_at_an_engine_whose_processes_cannot_be_seen_believes_the_engine(
    engine: DockerEngine, nodes: Nodes
) -> None:
    nodes.add("a", GROUP, 0)
    assert engine.look(PLAN, GROUP) == [Look("a", 0, alive=True), Look("b", 1, alive=False)]


def test_a_look_at_a_node_that_is_not_reached_says_so_and_the_other_is_seen(engine: DockerEngine, nodes: Nodes) -> None:
    nodes.add("a", GROUP, 0)
    nodes.down = {"b"}
    first, second = engine.look(PLAN, GROUP)
    assert (first.alive, second.reached, second.alive) == (True, False, False)
    assert "it refuses SSH connections" in second.why


def test_a_node_that_is_not_reached_is_an_error_after_the_others_were_stopped(
    engine: DockerEngine, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E2."""
    monkeypatch.setattr(nodes, "each", reach.each)
    nodes.add("a", GROUP, 0)
    nodes.add("b", GROUP, 1)
    for down, other in (("a", "b"), ("b", "a")):
        nodes.down = {down}
        with pytest.raises(Unreachable):
            engine.stop(PLAN, GROUP, 30)
        assert not nodes.containers[other][0]["State"]["Running"]


def test_restarts_by_the_engine_are_drift() -> None:
    """E2: a rank that came back alone, again and again."""
    found = {"Image": "sha256:1", "Config": {"Entrypoint": ["vllm"], "Cmd": ["serve", "/m"], "Env": ["A=1"]}}
    [told] = differences(PLAN.ranks[0], {**found, "RestartCount": 12})
    assert "started it again 12 times" in told


def test_everything_in_which_a_container_differs_is_told() -> None:
    """D7: what a rank really got, also a variable that did not reach it."""
    config = {"Entrypoint": ["vllm"], "Cmd": ["serve", "/m"], "Env": ["A=1", "PATH=/bin"]}
    assert differences(PLAN.ranks[0], {"Image": "sha256:1", "Config": config}) == []
    other = {"Image": "sha256:2", "Config": {**config, "Cmd": ["serve", "/n"], "Env": ["A=2"]}}
    told = differences(PLAN.ranks[0], other)
    assert [line.split(" ")[0] for line in told] == ["image", "arguments", "A"]
    [lacking] = differences(PLAN.ranks[0], {"Image": "sha256:1", "Config": {**config, "Env": ["PATH=/bin"]}})
    assert lacking.startswith("A is None, planned was ")


def test_a_folder_that_cannot_be_made_is_refused_with_its_node(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess[str]([], 1, "", "mkdir: no space\n")
    monkeypatch.setattr(nodes, "run", lambda *words, **named: failed)
    with pytest.raises(Refused, match="node b: mkdir: no space — change"):
        engine.start(PLAN, GROUP, tmp_path)


def test_a_container_whose_start_was_not_answered_is_not_made_twice(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path
) -> None:
    nodes.breaks = {"run": 1}
    engine.start(PLAN, GROUP, tmp_path)
    assert [len(found) for found in nodes.containers.values()] == [1, 1]
    assert [it.alive for it in engine.ranks(PLAN, GROUP)] == [True, True]


def test_a_container_that_was_not_made_when_the_connection_broke_is_made(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, broken = nodes.docker, [True]

    def docker(place: Place, *words: str, **named: Any) -> str:
        if words[0] == "run" and broken.pop():
            raise Unreachable("the connection broke")
        broken.append(False)
        return real(place, *words, **named)

    monkeypatch.setattr(nodes, "docker", docker)
    engine.start(PLAN, GROUP, tmp_path)
    assert [it.alive for it in engine.ranks(PLAN, GROUP)] == [True, True]


def test_a_log_of_an_earlier_start_is_not_taken_for_one_of_this(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path
) -> None:
    for ending in ("log", "times"):
        (tmp_path / f"b.{ending}").write_text("EngineCore failed to start\n")
    engine.start(PLAN, GROUP, tmp_path)
    nodes.down = {"b"}
    engine.collect(PLAN, GROUP, tmp_path)
    left = [it.name for it in tmp_path.iterdir() if it.name.startswith("b.")]
    assert left == ["b.1.log"]


def test_a_log_is_followed_where_its_container_is_from_its_last_start(engine: DockerEngine, nodes: Nodes) -> None:
    box = nodes.add("b", GROUP, 1)
    [(name, (place, words))] = engine.follow(PLAN, GROUP, Path("/none"), 7).items()
    assert (name, place.name) == ("b", "b")
    since = box["State"]["StartedAt"]
    assert words[-7:] == ("logs", "--follow", "--tail", "7", "--since", since, box["Id"])


@pytest.fixture
def smaller(nodes: Nodes) -> DockerEngine:
    """The engine of the cluster after node b was taken out of its file."""
    return DockerEngine([PLAN.ranks[0].place], nodes, nodes.told.append)


def test_what_runs_on_a_node_that_left_the_cluster_is_found_stopped_and_removed(
    smaller: DockerEngine, nodes: Nodes
) -> None:
    nodes.add("b", GROUP, 1)
    nodes.add("b", "pair-01/r2", 1, running=False)
    assert smaller.groups("pair-01", []) == set()
    assert smaller.groups("pair-01", [PLAN]) == {GROUP}
    smaller.stop(PLAN, GROUP, 30)
    assert [it["State"]["Running"] for it in nodes.containers["b"]] == [False, False]
    smaller.tidy("pair-01", {GROUP}, [PLAN])
    assert [it["Labels"]["dev.hallmark.group"] for it in nodes.containers["b"]] == [GROUP]
    assert nodes.told == []


def test_a_node_that_left_the_cluster_and_is_not_reached_is_told_of_once(smaller: DockerEngine, nodes: Nodes) -> None:
    nodes.down = {"b"}
    nodes.add("a", GROUP, 0)
    assert smaller.groups("pair-01", [PLAN]) == {GROUP}
    assert [it.alive for it in smaller.ranks(PLAN, GROUP)] == [True, False]
    smaller.stop(PLAN, GROUP, 30)
    assert [it["State"]["Running"] for it in nodes.containers["a"]] == [False]
    assert nodes.told == [
        "warning: node b (host-b) is in the cluster file no more and is not reached, so what may still run there stays:"
        " node b: it refuses SSH connections"
    ]


def test_a_node_of_the_cluster_that_is_not_reached_is_an_error(engine: DockerEngine, nodes: Nodes) -> None:
    nodes.down = {"b"}
    with pytest.raises(Unreachable):
        engine.stop(PLAN, GROUP, 30)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"ExitCode": 1, "OOMKilled": False, "Error": ""}, "its container ended with exit code 1"),
        ({"ExitCode": 137, "OOMKilled": False}, "its container ended with exit code 137, as after kill -9"),
        ({"Status": "created", "ExitCode": 127, "Error": "no vllm"}, "its container was never started: no vllm"),
        (
            {"ExitCode": 1, "OOMKilled": True},
            "the kernel's out-of-memory killer struck in its container, which ended with exit code 1",
        ),
        (
            {"ExitCode": 127, "Error": "exec: vllm: not found"},
            "its container ended with exit code 127: exec: vllm: not found",
        ),
    ],
)
def test_how_a_container_ended_is_told(state: dict[str, Any], told: str) -> None:
    assert ended(state) == told


def test_of_a_container_its_state_is_kept_beside_its_log_and_no_variable(
    engine: DockerEngine, nodes: Nodes, tmp_path: Path
) -> None:
    made = nodes.add("a", GROUP, 0, running=False)
    made["State"]["OOMKilled"] = True
    made["Config"] = {"Env": ["VLLM_API_KEY=hidden"]}
    engine.collect(PLAN, GROUP, tmp_path)
    kept = (tmp_path / "a.container.json").read_text()
    assert (json.loads(kept)["State"]["OOMKilled"], "hidden" in kept) == (True, False)
