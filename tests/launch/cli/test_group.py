"""Commands on a group as scripts see them: one JSON document with the shapes of the contract, and exit statuses."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from launch.ledger.history import Revision
from launch.ledger.launch import Outcome
from launch.plan.group import Subject, plan_group
from recipe.config.check import check_cluster
from recipe.config.paths import CHECKOUT
from scripts.engines.packages import program
from tests.standin.world import World, until


@pytest.fixture
def running(world: World) -> World:
    world.done("launch", "pair")
    return world


def test_a_launch_says_where_it_answers(world: World) -> None:
    found = world.done("launch", "pair")
    assert {"cluster", "revision", "changed", "url", "model", "curl", "outage_seconds", "gates", "steps"} <= set(found)
    assert (found["cluster"], found["url"], found["model"]) == ("pair", f"http://127.0.0.1:{world.api}", "tiny")
    assert {step["of"] for step in found["steps"]} == {"group", "tool"}
    assert found["tool_seconds"] > 0
    for word in ("curl", found["url"], '"tiny"'):
        assert word in found["curl"]
    assert found["curl"] in world.run("launch", "pair").out


def test_the_curl_line_works_as_it_is_printed_also_with_a_key_which_it_does_not_show(
    world: World, tmp_path: Path
) -> None:
    program("curl", "curl")
    (tmp_path / "it's a key").write_text("THE-VALUE-ITSELF\n")
    world.patches.setenv("HOME", str(tmp_path))
    serve = {"served-model-name": "it's tiny", "host": world.host, "tensor-parallel-size": 2}
    world.profile("a", env={"VLLM_API_KEY": "file:~/it's a key"}, serve=serve, gates={"trial": ["answers"]})
    line = world.done("launch", "pair")["curl"]
    asked = subprocess.run(["sh", "-c", line], check=True, capture_output=True, text=True).stdout
    assert json.loads(asked)["choices"][0]["text"]
    assert "THE-VALUE-ITSELF" not in line
    models = ["curl", "-s", f"http://{world.host}:{world.api}/v1/models"]
    bare = subprocess.run(models, check=True, capture_output=True, text=True).stdout
    assert json.loads(bare) == {"error": "Unauthorized"}


def test_the_curl_line_reads_a_key_of_the_shell() -> None:
    checked = check_cluster(CHECKOUT, "two-spark.example")
    plan = plan_group(checked.profile, checked.cluster, Subject("image", "x", None, digest="0" * 64))
    plan = replace(plan, ranks=(replace(plan.ranks[0], secrets={"VLLM_API_KEY": "env:THE_KEY"}), *plan.ranks[1:]))
    line = Outcome("two", 1, True, plan, None, [], [], 0.0, plan.api_url).curl
    assert line == (
        'curl -s http://192.168.177.11:8000/v1/completions -H "Authorization: Bearer $THE_KEY"'
        """ -H 'Content-Type: application/json' -d '{"model": "deepseek-v4-flash", "prompt": "Hello","""
        """ "max_tokens": 16}'"""
    )


def test_a_status_has_every_rank(running: World) -> None:
    found = running.done("status", "pair")
    assert set(found) >= {"cluster", "state", "revision", "image", "ranks", "ready"}
    assert (found["cluster"], found["state"], found["revision"], found["ready"]) == ("pair", "running", 1, True)
    assert [(rank["name"], rank["rank"], rank["alive"], rank["drift"]) for rank in found["ranks"]] == [
        ("left", 0, True, []),
        ("right", 1, True, []),
    ]
    assert len({rank["digest"] for rank in found["ranks"]}) == 1
    assert running.run("status", "pair").out.startswith("pair: running, revision 1, answers\n")


def test_a_status_during_a_launch_says_that_it_changes(world: World) -> None:
    world.profile("h", "hangs-at-start")
    command = world.begin("launch", "pair", "--profile", "h")
    command.says("start revision 1")
    assert world.run("status", "pair", "--json").document["state"] == "changing"
    assert world.done("lock", "show", "pair")["holder"].endswith(": launch h")
    command.signal(signal.SIGINT)
    assert command.wait().exit == 2
    assert world.done("lock", "show", "pair")["holder"] is None


def test_a_history_has_the_keys_of_the_contract(running: World) -> None:
    [revision] = running.done("history", "pair")["revisions"]
    keys = {"number", "image", "profile", "patchset", "certified", "restores", "state", "who", "why"}
    assert set(revision) >= keys
    assert (revision["number"], revision["profile"], revision["state"]) == (1, "a", "committed")
    line = running.run("history", "pair").out
    assert "committed, running" in line


def test_a_history_names_the_image_where_no_patch_set_is_known(running: World, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Revision.to_json
    image = {"patchset": None, "image": "localhost/vllm:1"}
    monkeypatch.setattr(Revision, "to_json", lambda self: known(self) | image)
    line = running.run("history", "pair").out
    assert "  a localhost/vllm:1  committed, running" in line


def test_an_error_is_a_document_with_all_problems(running: World) -> None:
    (running.models / "tiny" / "config.json").unlink()
    running.hardware(**{"rank-memory-gib": 100_000})
    result = running.run("launch", "pair", "--profile", "c", "--json")
    error = result.document["error"]
    assert set(error) >= {"exit", "message", "where", "hint"}
    assert error["exit"] == result.exit == 2
    assert "has no config.json" in error["message"]
    assert "GiB of memory" in error["message"]
    assert result.err.count("hallmark: ") == 3


def test_a_failed_gate_is_in_the_error_with_its_numbers(running: World) -> None:
    error = running.run("launch", "pair", "--profile", "b", "--json").document["error"]
    assert [(gate["name"], gate["verdict"]) for gate in error["gates"]] == [("answers", "pass"), ("acceptance", "fail")]
    assert error["revision"] == 2


def test_a_stop_and_logs_are_documents(running: World) -> None:
    logs = running.done("logs", "pair", "--node", "left", "--lines", "1")
    assert logs["revision"] == 1
    assert list(logs["logs"]) == ["left"]
    assert len(logs["logs"]["left"]) == 1
    assert running.run("logs", "pair", "--node", "middle").exit == 1
    assert running.done("stop", "pair") == {"cluster": "pair", "stopped": [1]}
    assert running.done("stop", "pair")["stopped"] == []


def test_logs_are_followed_rank_by_rank_until_ctrl_c(running: World) -> None:
    command = [str(Path(sys.executable).parent / "hallmark"), "--home", str(running.home), "logs", "pair", "-f"]
    [log] = running.node.rglob("r1/right.log")
    with subprocess.Popen([*command, "--lines", "1"], stdout=subprocess.PIPE, text=True) as following:
        try:
            assert following.stdout is not None
            assert {following.stdout.readline().partition(": ")[0] for _ in range(2)} == {"left", "right"}
            with log.open("a") as file:
                file.write("\x1b[31mone line more\x1b[0m\n")
            assert following.stdout.readline() == "right: one line more\n"
            tails = [it for it in Path("/proc").glob("[0-9]*/cmdline") if str(log).encode() in contents(it)]
            assert tails
            following.send_signal(signal.SIGINT)
            assert following.wait(30) == 0
        finally:
            following.kill()
    until(lambda: not any(str(log).encode() in contents(it) for it in tails))


def test_logs_are_followed_until_the_ranks_end_and_no_longer(running: World) -> None:
    following = running.begin("logs", "pair", "-f")
    until(lambda: "right: " in following.heard())
    running.done("stop", "pair")
    ended = following.wait()
    again = running.begin("logs", "pair", "-f").wait()
    assert [one.exit for one in (ended, again)] == [0, 0], again.err
    assert sorted(ended.out.splitlines()) == sorted(again.out.splitlines())
    assert "Application startup complete" in again.out


def contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_what_is_followed_is_no_document_and_has_a_node_of_the_cluster(running: World) -> None:
    refused = running.run("logs", "pair", "--follow", "--json")
    assert (refused.exit, "--follow: a document has an end" in refused.err) == (1, True)
    assert "one of left, right" in running.run("logs", "pair", "-f", "--node", "middle").err
    # As the docker engine has it when somebody removed the containers.
    running.patches.setattr("launch.engines.process.ProcessEngine.follow", lambda *words: {})
    gone = running.run("logs", "pair", "-f", "--node", "left")
    assert (gone.exit, "there is no log of revision 1 on left — hallmark status pair" in gone.err) == (2, True)


def test_the_flag_may_stand_before_the_command(running: World) -> None:
    assert json.loads(running.run("--json", "status", "pair").out)["state"] == "running"
