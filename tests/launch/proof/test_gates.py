"""Gates against a stand-in server; each case is a file in tests/cases/gates."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.plan.logs import RankLog
from launch.proof.client import Client
from launch.proof.context import NodeMemory, RankFact
from launch.proof.gates import GateResult, passed, run_gate, run_gates
from launch.proof.judge import judge
from launch.proof.measure import GateContext
from launch.proof.verdict import Verdict
from recipe.config.gate import LogsGate, load_gate, parse
from recipe.config.load import names
from recipe.errors import Unreachable

ROOT = Path(__file__).parents[3]
CASES = ROOT / "tests" / "cases" / "gates"
PATCHSET = "c0ffee" + "0" * 58
ANSWERS: dict[str, Any] = {"kind": "answers", "summary": "it answers", "prompts": [{"prompt": "a"}], "deadline": 5}


def context(
    url: str, logs: list[RankLog] | None = None, patchset: str | None = PATCHSET, case: dict[str, Any] | None = None
) -> GateContext:
    told = case or {}
    ranks = [RankFact(**{**rank, "drift": tuple(rank.get("drift", ()))}) for rank in told.get("ranks", [])]
    memory = [
        NodeMemory(**{**node, "gpus": tuple(tuple(gpu) if gpu else None for gpu in node["gpus"])})
        for node in told.get("memory", [])
    ]
    return GateContext(
        Client(url), "m", lambda: logs or [], patchset, told.get("serve", {}), lambda: ranks, lambda: memory
    )


@pytest.mark.parametrize("path", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_gate_gives_the_verdict_that_the_case_expects(path: Path, stand_in: Callable[..., Any]) -> None:
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    gate = case["gate"]
    if isinstance(gate, str):
        gate = yaml.safe_load((ROOT / "configs" / "gates" / f"{gate}.yaml").read_text(encoding="utf-8"))
    logs = [RankLog(log["node"], log["rank"], _text(log), log.get("current", True)) for log in case.get("logs", [])]
    behaviour = {key.replace("-", "_"): value for key, value in case.get("server", {}).items()}
    server = stand_in(**{**behaviour, "extra": behaviour.get("extra", "").replace("PATCHSET", PATCHSET)})
    patchset = case.get("patchset", PATCHSET)
    result = run_gate("g", parse(gate), context(server.url, logs, patchset, case))
    expected = case["expect"]
    assert result.verdict == expected["verdict"], result.summary
    for words in expected["says"]:
        assert words in result.summary
    if result.verdict is not Verdict.PASS:
        assert " — " in result.summary, "the next thing to try is missing"
    if "value" in expected:
        assert result.value == pytest.approx(expected["value"])
    stored = json.loads(json.dumps(result.document(), allow_nan=False))
    again = judge(parse(stored["definition"]), stored["raw"], patchset)
    assert (again.verdict, again.value, again.bar) == (stored["verdict"], stored["value"], stored["bar"])


def _text(log: dict[str, Any]) -> str:
    return str(log.get("text") or ((CASES / log["file"]).read_text(encoding="utf-8") if "file" in log else ""))


def test_a_gate_on_a_port_where_nothing_listens_fails_and_does_not_raise(stand_in: Callable[..., Any]) -> None:
    server = stand_in()
    url = server.url
    server.stop()
    result = run_gate("answers", parse(ANSWERS), context(url))
    assert result.verdict is Verdict.FAIL
    assert "see whether the head still runs" in result.summary


def test_gates_run_in_order_and_report_before_and_after_each(stand_in: Callable[..., Any]) -> None:
    seen: list[tuple[str, Verdict | None]] = []

    def progress(name: str, result: GateResult | None) -> None:
        seen.append((name, result.verdict if result else None))

    gate = parse(ANSWERS)
    results = run_gates({"b": gate, "a": gate}, context(stand_in().url), progress)
    assert [result.name for result in results] == ["b", "a"]
    assert seen == [("b", None), ("b", "pass"), ("a", None), ("a", "pass")]
    assert passed(results)


def test_no_further_requests_are_sent_to_a_server_that_stopped_answering(stand_in: Callable[..., Any]) -> None:
    server = stand_in(hangs=True)
    slow = parse({**ANSWERS, "deadline": 0.2, "prompts": [{"prompt": "a"}, {"prompt": "b"}]})
    logs = parse({"kind": "logs", "summary": "s", "forbidden": [{"pattern": "x", "because": "b"}]})
    results = run_gates({"first": slow, "second": slow, "logs": logs}, context(server.url, [RankLog("n", 0, "a line")]))
    assert [str(result.verdict) for result in results] == ["fail", "inconclusive", "pass"]
    assert "stopped answering in gate first" in results[1].summary
    assert len(server.requests) == 1
    assert not passed(results)


def test_one_failed_request_does_not_keep_the_other_prompts_from_being_asked(stand_in: Callable[..., Any]) -> None:
    server = stand_in(status=500)
    gate = parse({**ANSWERS, "prompts": [{"prompt": "a"}, {"prompt": "b"}]})
    assert run_gate("answers", gate, context(server.url)).value == 0
    assert len(server.requests) == 2


def test_logs_that_cannot_be_fetched_are_inconclusive(stand_in: Callable[..., Any]) -> None:
    def unreachable() -> list[RankLog]:
        raise Unreachable("node b does not answer")

    gate = parse({"kind": "logs", "summary": "s", "forbidden": [{"pattern": "x", "because": "b"}]})
    result = run_gate("logs", gate, GateContext(Client(stand_in().url), "m", unreachable, None))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "node b does not answer" in result.summary


def test_requests_are_greedy_and_run_past_the_end_token_except_when_acceptance_is_measured(
    stand_in: Callable[..., Any],
) -> None:
    server = stand_in()
    run_gate("answers", parse(ANSWERS), context(server.url))
    acceptance = {"kind": "acceptance", "summary": "s", "prompts": ["a"], "min-mean-length": 2, "min-drafts": 1}
    run_gate("acceptance", parse(acceptance), context(server.url))
    assert [(body["temperature"], body["ignore_eos"]) for body in server.requests] == [(0, True), (0, False)]


def test_the_tail_of_an_earlier_answer_is_not_counted_as_anothers_request(stand_in: Callable[..., Any]) -> None:
    spec = {"drafts": 24, "draft_tokens": 72, "accepted_tokens": 66, "accepted_tokens_per_pos": [24, 22, 20]}
    server = stand_in(late=1, spec=spec)
    acceptance = {"kind": "acceptance", "summary": "s", "prompts": ["a"], "min-mean-length": 2, "min-drafts": 1}
    results = run_gates({"answers": parse(ANSWERS), "acceptance": parse(acceptance)}, context(server.url))
    assert passed(results), results[1].summary


@pytest.mark.parametrize("path", sorted((CASES / "logs").glob("*.log")), ids=lambda path: path.stem)
def test_nothing_that_a_shipped_gate_forbids_stands_in_a_healthy_log(path: Path) -> None:
    logs = [RankLog("a", 0, path.read_text(encoding="utf-8"))]
    for name in names(ROOT, "gates"):
        gate = load_gate(ROOT, name)
        if isinstance(gate, LogsGate) and gate.forbidden:
            only = gate.model_copy(update={"required": ()})
            result = run_gate(name, only, context("http://127.0.0.1:9", logs))
            assert result.verdict is Verdict.PASS, result.summary


def test_no_gates_at_all_is_no_pass() -> None:
    assert not passed([])
