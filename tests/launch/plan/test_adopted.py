"""Containers that somebody started by hand, as ranks of a plan; each case is a file in tests/cases/adopt."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.engines.docker import run_argv
from launch.plan.adopted import Found, is_secret, rank_plan, warnings
from launch.plan.compare import differences
from launch.plan.group import GroupPlan, RankPlan, Subject
from launch.plan.place import Place
from launch.plan.ranks import flag, model, words
from recipe.config.models import Gates
from recipe.config.paths import CHECKOUT

CASES = sorted((CHECKOUT / "tests" / "cases" / "adopt").glob("*.yaml"))


def found(case: dict[str, Any]) -> Found:
    return Found(Place("left", "local"), case["container"], case["image"])


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_container_becomes_a_plan_that_would_run_it_again(path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    one = found(case)
    assert one.serves
    plan = rank_plan(one, {"dev.hallmark.rank": str(one.rank)})
    assert shlex.join(run_argv(plan)) == case["planned"]
    assert (plan.rank, plan.secrets) == (case["rank"], case["secrets"])
    assert list(warnings(one)) == case["warnings"]


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HF_TOKEN", "x", True),
        ("vllm_api_key", "x", True),
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("DB_PASSWORD", "x", True),
        ("APIKEYS", "x", True),
        ("HTTP_PROXY", "http://me:pw@proxy", True),
        ("HTTP_PROXY", "http://proxy:3128", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("KEYBOARD", "de", False),
    ],
)
def test_a_secret_is_known_by_its_name_or_a_password_in_an_address(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("vllm", "serve", "/m", "--port", "1"), "/m"),
        (("python3", "-m", "vllm.entrypoints.openai.api_server", "--model=/n"), "/n"),
        (("vllm", "serve", "--port", "1"), None),
        (("sh", "-c", "vllm serve '/a b' --x"), "/a b"),
    ],
)
def test_the_model_is_found_however_it_was_given(argv: tuple[str, ...], named: str | None) -> None:
    assert model(argv) == named


def test_the_last_of_a_repeated_option_counts() -> None:
    assert flag(words(("vllm", "--port", "1", "--port=2")), "--port") == "2"
    assert flag(("vllm", "--port"), "--port") is None


def group(*ranks: RankPlan) -> GroupPlan:
    subject = Subject("image", "x", None)
    return GroupPlan("c", "docker", "p", ranks, "http://a:1", "m", subject, Gates(trial=(), certify=()))


def test_all_that_differs_from_the_profile_is_told_once_and_no_secret_is_shown() -> None:
    case = yaml.safe_load((CHECKOUT / "tests" / "cases" / "adopt" / "all-options.yaml").read_text())
    runs = group(rank_plan(found(case), {}))
    case["container"]["Config"] |= {"Env": ["NCCL_IB_HCA=other"], "Cmd": ["/models/m", "--nnodes=2", "--x"]}
    case["container"]["HostConfig"] |= {"ShmSize": 1024, "CapAdd": None}
    case["container"]["Mounts"][0]["Source"] = "/data/n"
    wanted = rank_plan(found(case), {})
    told = differences(runs, group(RankPlan(**{**vars(wanted), "rank": 1})))
    assert told == [
        "rank 1 (left): only what runs has the argument --node-rank 1",
        "rank 1 (left): only what runs has the argument --headless",
        "rank 1 (left): only the profile has the argument --x",
        "rank 1 (left): the variable HF_TOKEN is a secret (env:HF_TOKEN), the profile's is not set",
        "rank 1 (left): the variable HTTPS_PROXY is a secret (env:HTTPS_PROXY), the profile's is not set",
        "rank 1 (left): the variable NCCL_IB_HCA is 'rocep1s0f1', the profile's is 'other'",
        "rank 1 (left): /models/m is /data/m, the profile's is /data/n",
        "rank 1 (left): cap-add is ('IPC_LOCK',), the profile's is ()",
        "rank 1 (left): shm-size is '16g', the profile's is '1k'",
        told[-1],
    ]
    assert told[-1].startswith("rank 1 (left): only what runs has --privileged, --ipc host")
    assert differences(runs, runs)[:-1] == []
