"""The docker engine's command line, as a list of words."""

from dataclasses import replace

from launch.engines.docker import run_argv
from launch.plan.container import Container, Mount
from launch.plan.group import RankPlan

BOX = Container(
    name="hallmark-x-r0-1",
    image="repo@sha256:1",
    mounts=(Mount("/models/m", "/m", read_only=True), Mount("/a,b", "/c")),
    devices=("/dev/infiniband",),
    cap_add=("IPC_LOCK",),
    ulimits={"memlock": -1},
    shm_size="16g",
    gpus="all",
    labels={"dev.hallmark.cluster": "x"},
)
RANK = RankPlan(
    "a", 0, "host-a", None, ("vllm", "serve", "/m", "--k", "it's"), {"A": "$x y"}, {"KEY": "env:KEY"}, BOX, {}
)


def test_the_whole_command_is_one_list_of_words() -> None:
    """B8: the entry point is the plan's, whatever the image has; a shell there would look like a wrong architecture."""
    wanted = "docker run --detach --name hallmark-x-r0-1 --init --network host --restart no --stop-timeout 30"
    wanted += " --gpus all --shm-size 16g --device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1"
    wanted += " --label dev.hallmark.cluster=x --mount type=bind,source=/models/m,target=/m,readonly"
    tail = ["--mount", 'type=bind,"source=/a,b",target=/c', "--env", "A=$x y", "--env", "KEY"]
    tail += ["--entrypoint", "vllm", "repo@sha256:1", "serve", "/m", "--k", "it's"]
    assert list(run_argv(RANK)) == [*wanted.split(), *tail]


def test_a_container_is_never_privileged_and_never_restarts_by_itself() -> None:
    """E2: a rank that comes back alone waits for the others for ever."""
    words = run_argv(RANK)
    assert "--privileged" not in words
    assert words[words.index("--restart") + 1] == "no"


def test_b9_a_secret_is_passed_by_name_only() -> None:
    assert not any(word.startswith("KEY=") or "env:KEY" in word for word in run_argv(RANK))


def test_an_engine_that_is_not_the_default_is_named_first() -> None:
    assert run_argv(replace(RANK, docker_host="unix:///run/x.sock"))[:4] == (
        "docker",
        "--host",
        "unix:///run/x.sock",
        "run",
    )


def test_a_rank_without_gpus_asks_for_none() -> None:
    assert "--gpus" not in run_argv(replace(RANK, container=replace(BOX, gpus=None)))
