"""Values survive exactly, from the text of a configuration file to a process's own arguments and environment (C1, C2,
C3): what a rank prints back is what was written. Processes, ssh and container engines are real."""

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from launch.engines.containers import DockerEngine
from launch.engines.process import ProcessEngine
from launch.nodes import reach, ssh
from launch.plan.group import GroupPlan, Subject, plan_group
from launch.plan.place import Place
from recipe.config.check import check_cluster
from recipe.errors import ConfigError
from scripts.engines.group import Group
from scripts.engines.packages import program
from tests.conftest import possible
from tests.launch.engines.values import flags, unread, variables, words, written
from tests.launch.nodes.spaces import two
from tests.standin.world import World, until

IMAGE = "localhost/prints:1"
_DUMP = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
# The engine's own container has no Python; the kernel knows what a process was started with.
_PRINT = "base64 /proc/$$/cmdline; echo .; base64 /proc/$$/environ"
_FEW = settings(
    max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
# A container takes a second.
_FEWER = settings(_FEW, max_examples=3)


def planned(world: World, document: dict[str, Any], engine: str, entrypoint: list[str], subject: Subject) -> GroupPlan:
    """The plan of a profile of one node that is written out as a file, loaded and checked."""
    head = {
        "summary": "prints back",
        "hardware": "here",
        "vllm": {"fork": "none"},
        "base": IMAGE,
        "model": "tiny",
        "entrypoint": entrypoint,
        "container": {"gpus": False, "shm-size": "64m"},
    }
    (world.home / "configs/profiles/prints.yaml").write_text(written({**head, **document}), encoding="utf-8")
    nodes = [{"name": "left", "address": "local"}]
    paths = {"state": str(world.node), "models": str(world.models), "cache": str(world.node / "cache")}
    world.cluster("prints", profile="prints", engine="docker", nodes=nodes, paths=paths)
    checked = check_cluster(world.home, "prints")
    if engine == "process":
        # Its rules ask for a patched environment, which has nothing to do with values.
        object.__setattr__(checked.cluster.value, "engine", "process")
    return plan_group(checked.profile, checked.cluster, subject)


def after_model(argv: list[str], model: str) -> list[str]:
    return argv[argv.index(model) + 1 :]


def of_process(world: World, document: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment as a rank of the process engine has them."""
    subject = Subject("env", "/none", None, None, digest="0" * 64)
    plan = planned(world, document, "process", [sys.executable, "-c", _DUMP], subject)
    logs = world.home / "logs"
    ProcessEngine().start(plan, f"prints-{time.monotonic_ns()}/r1", logs)
    log = logs / "left.log"
    until(lambda: log.read_text().endswith("\n"))
    argv, env = json.loads(log.read_text())
    log.unlink()
    return after_model(argv, f"{world.models}/tiny"), env


@_FEW
@given(serve=flags, env=variables)
def test_what_is_written_is_what_a_process_gets(world: World, serve: dict[str, Any], env: dict[str, Any]) -> None:
    argv, there = of_process(world, {"serve": serve, "env": env})
    assert unread(argv, serve) == ["--port", str(world.api)]
    assert {name: there.get(name) for name in env} == {name: str(value) for name, value in env.items()}


def test_plain_words_of_yaml_stay_the_text_that_they_are(world: World) -> None:
    """C3: none of them is a switch, a number in base sixty or eight, or a date; `null`, `~` and nothing are absent."""
    plain = ["on", "off", "yes", "No", "22:22", "012", "2026-12-01", "1_000", "=", "a: b", "x #y"]
    head = {"summary": "x", "hardware": "here", "vllm": {"fork": "none"}, "base": IMAGE, "model": "tiny"}
    head |= {"entrypoint": [sys.executable, "-c", _DUMP]}
    keep = [it for it in plain if ": " not in it and " #" not in it]
    lines = [f"{key}: {written(value)}" for key, value in head.items()]
    lines += ["serve:", *(f"  k{n}: {word}" for n, word in enumerate(keep))]
    lines += ["  gone-a: null", "  gone-b: ~", "  gone-c:", "  zero: 0", "  nought: 0.0", "  sw: true", "  sv: false"]
    lines += ["env:", *(f"  V{n}: {word}" for n, word in enumerate(keep)), "  EMPTY: ''", "  BLANK: '  '"]
    planned(world, {}, "process", ["x"], Subject("env", "/none", None, None, digest="0" * 64))
    (world.home / "configs/profiles/prints.yaml").write_text("\n".join(lines) + "\n")
    checked = check_cluster(world.home, "prints")
    object.__setattr__(checked.cluster.value, "engine", "process")
    plan = plan_group(checked.profile, checked.cluster, Subject("env", "/none", None, None, digest="0" * 64))
    ProcessEngine().start(plan, f"prints-{time.monotonic_ns()}/r1", world.home / "logs")
    log = world.home / "logs" / "left.log"
    until(lambda: log.read_text().endswith("\n"))
    argv, env = json.loads(log.read_text())
    told = [word for n, text in enumerate(keep) for word in (f"--k{n}", text)]
    told += ["--zero", "0", "--nought", "0.0", "--sw", "--no-sv", "--port", str(world.api)]
    assert after_model(argv, f"{world.models}/tiny") == told
    assert [env[f"V{n}"] for n in range(len(keep))] == keep
    assert (env["EMPTY"], env["BLANK"], "ABSENT" in env) == ("", "  ", False)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"serve": {"x": ""}}, "serve.x: is an empty text — write a value, or null to leave the flag out"),
        ({"serve": {"x": "a\0b"}}, "serve.x: holds a NUL character"),
        ({"env": {"X": None}}, "env.X"),
        ({"env": {"X": "a\0b"}}, "env.X: holds a NUL character"),
    ],
)
def test_what_no_process_could_get_is_refused(world: World, document: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        planned(world, document, "docker", ["x"], Subject("image", IMAGE, None))
    assert says in str(refused.value)


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Path]]:
    with possible(), two(tmp_path_factory.mktemp("far")) as (first, _, config):
        yield Place("far", first.host), config


@_FEW
@given(serve=flags, env=variables)
def test_words_and_variables_cross_a_real_ssh_as_they_are(
    far: tuple[Place, Path], serve: dict[str, Any], env: dict[str, Any]
) -> None:
    place, config = far
    argv = [str(value) for value in serve.values()]
    # A line a variable is what a secret is; the value of one of several lines is refused.
    given_env = {name: str(value) for name, value in env.items() if not set("\r\n") & set(str(value))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ssh.VARIABLE, str(config))
        done = reach.run(place, (sys.executable, "-c", _DUMP, *argv), variables=given_env)
    there, environment = json.loads(done.stdout)
    assert there == argv
    assert {name: environment.get(name) for name in given_env} == given_env


@pytest.fixture
def box(world: World, nodes: Group, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A node with a real engine behind a real sshd, and an image of nothing but a shell."""
    with possible():
        busybox = program("busybox", "busybox-static")
    engine, node = nodes.engines[0], nodes.nodes[0]
    folder = world.home / "image" / "bin"
    folder.mkdir(parents=True)
    (folder / "sh").write_bytes(Path(busybox).resolve().read_bytes())
    (folder / "sh").chmod(0o755)
    (folder / "base64").symlink_to("sh")
    archive = world.home / "image.tar"
    subprocess.run(["tar", "-C", str(folder.parent), "-cf", str(archive), "."], check=True)
    engine.docker("import", str(archive), IMAGE)
    monkeypatch.setenv(ssh.VARIABLE, str(nodes.config))
    ssh._sockets.cache_clear()
    yield Place("left", f"ssh://{node.address}:{node.port}")
    left = engine.docker("ps", "--all", "--quiet", "--filter", "label=dev.hallmark.cluster=prints").stdout.split()
    if left:
        engine.docker("rm", "--force", *left)
    engine.docker("image", "rm", IMAGE)


@pytest.mark.docker
@_FEWER
@given(serve=flags, env=variables, secret=words.filter(lambda text: not set("\r\n") & set(text)))
def test_what_is_written_is_what_a_container_behind_ssh_gets(
    world: World, box: Place, serve: dict[str, Any], env: dict[str, Any], secret: str
) -> None:
    digest = reach.docker(box, "image", "inspect", "--format", "{{.Id}}", IMAGE).strip().removeprefix("sha256:")
    document = {"serve": serve, "env": {**env, "THE_TOKEN": "env:THE_TOKEN_HERE"}}
    plan = planned(world, document, "docker", ["/bin/sh", "-c", _PRINT], Subject("image", IMAGE, None, digest=digest))
    [rank] = plan.ranks
    object.__setattr__(rank, "address", box.address)
    group = f"prints-{time.monotonic_ns()}/r1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THE_TOKEN_HERE", secret)
        DockerEngine([box], reach, lambda line: None).start(plan, group, world.home / "logs")
    ran = reach.docker(box, "ps", "--all", "--quiet", "--filter", f"label=dev.hallmark.group={group}").strip()
    reach.docker(box, "wait", ran)
    argv, there = (
        base64.b64decode(part).decode().split("\0")[:-1] for part in reach.docker(box, "logs", ran).split(".")
    )
    assert unread(after_model(argv, "/models/tiny"), serve) == ["--port", str(world.api)]
    variables_there = dict(line.split("=", 1) for line in there)
    assert {name: variables_there.get(name) for name in env} == {name: str(value) for name, value in env.items()}
    assert variables_there["THE_TOKEN"] == secret
