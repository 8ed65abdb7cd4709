"""Prompts are measured by the server's own counts, and what spoils a figure is told."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launch.proof.bench import prefill, prompts
from launch.proof.bench.run import Subject, bench
from launch.proof.client import BadReply, Client, Streamed
from recipe.config.bench import NamedPrompt, PromptsPreset, load_preset
from recipe.errors import HallmarkError, Unreachable

ROOT = Path(__file__).parents[4]
SPEC = {"drafts": 4, "draft_tokens": 20, "accepted_tokens": 12, "accepted_tokens_per_pos": [4, 4, 2, 1, 1]}
PRESET = PromptsPreset.model_validate(
    {"kind": "prompts", "summary": "s", "max-tokens": 16, "runs": 2, "prompts": [{"name": "a", "prompt": "a"}]}
)


def silent(line: str) -> None:
    """Nobody reads what is said."""


@pytest.mark.parametrize("via", ["completions", "chat"])
def test_g1_tokens_of_a_stream_are_those_of_its_usage_and_not_its_pieces(
    via: Any, stand_in: Callable[..., Any]
) -> None:
    answer = Client(stand_in(per_piece=4).url).stream("m", "a", tokens=160, deadline=5, via=via)
    assert (answer.tokens, answer.text.count("word")) == (160, 160)
    assert 0 < answer.first <= answer.seconds


def test_g1_the_rate_of_a_stream_is_tokens_after_the_first_text_and_not_pieces(
    stand_in: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # 40 pieces of four tokens in 4 s, one second after the request.
    timed = Streamed(" word" * 160, 160, 3, first=1.0, seconds=5.0)
    monkeypatch.setattr(Client, "stream", lambda *words, **options: timed)
    (found,) = prompts.run(Client(stand_in().url), "m", PRESET, silent)
    streamed = [run for run in found.runs if run.streamed]
    assert [(run.tok_s, run.decode_tok_s) for run in streamed] == [(32.0, 39.75)] * 2


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [({"usage": False}, "token usage"), ({"breaks_off": True}, "broke off"), ({"tokens": 0}, "without text")],
)
def test_g1_a_stream_without_usage_or_text_or_end_is_no_answer(
    behaviour: dict[str, Any], told: str, stand_in: Callable[..., Any]
) -> None:
    with pytest.raises(BadReply, match=told):
        Client(stand_in(**behaviour).url).stream("m", "a", tokens=16, deadline=5)


def test_a_prompt_has_whole_and_streamed_runs_after_one_that_is_not_counted(stand_in: Callable[..., Any]) -> None:
    server = stand_in(spec=SPEC)
    (found,) = prompts.run(Client(server.url), "m", PRESET, silent)
    assert [run.streamed for run in found.runs] == [False, False, True, True]
    assert len(server.requests) == 5
    assert found.spec is not None
    # Four counted answers of four drafts each.
    assert (found.spec.drafts, found.spec.mean_length) == (16, 4.0)
    assert found.flaws == []


def test_tokens_of_other_requests_mark_the_run(stand_in: Callable[..., Any]) -> None:
    (found,) = prompts.run(Client(stand_in(others=7).url), "m", PRESET, silent)
    assert [run.foreign for run in found.runs] == [7, 7, 7, 7]
    assert found.flaws == ["other requests landed meanwhile"]


def test_g1_one_failed_request_of_several_fails_the_benchmark_and_is_told(stand_in: Callable[..., Any]) -> None:
    server = stand_in(fails_at=3)
    result = bench(Subject(server.url, None, None, None, None, None), "p", PRESET, silent)
    assert result.failed
    assert result.flaws[0].startswith("a: 1 of 4 requests failed: HTTP 500")
    document = result.document()["prompts"]["a"]
    assert (len(document["runs"]), document["tokens"]) == (4, 16)


def test_an_empty_answer_is_a_failed_request(stand_in: Callable[..., Any]) -> None:
    (found,) = prompts.run(Client(stand_in(tokens=0).url), "m", PRESET, silent)
    assert found.tok_s is None
    assert "4 of 4 requests failed" in found.flaws[0]


def test_a_prefill_has_exactly_the_tokens_that_were_asked_for_and_is_never_sent_twice(
    stand_in: Callable[..., Any],
) -> None:
    server = stand_in()
    client = Client(server.url)
    found = prefill.run(client, "m", [64, 4096], 2048, silent)
    assert [one.skipped for one in found] == [None, "the server takes 2048 tokens in all"]
    assert [request["prompt"] for request in server.requests if request.get("max_tokens") == 1] == ["64 tokens"]


def test_a_model_that_is_not_served_is_named_with_those_that_are(stand_in: Callable[..., Any]) -> None:
    with pytest.raises(HallmarkError, match="does not serve a model 'x' — it serves: m"):
        bench(Subject(stand_in().url, None, "x", None, None, None), "p", PRESET, silent)


def test_an_address_where_nothing_listens_is_unreachable(stand_in: Callable[..., Any]) -> None:
    server = stand_in()
    server.stop()
    with pytest.raises(Unreachable):
        bench(Subject(server.url, None, None, None, None, None), "p", PRESET, silent)


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "bench").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_preset_loads_and_its_published_figures_have_a_source(path: Path) -> None:
    preset = load_preset(ROOT, path.stem)
    assert preset.published
    assert all(column.source for column in preset.published)


def test_the_documents_figures_stand_beside_ours(stand_in: Callable[..., Any]) -> None:
    preset = load_preset(ROOT, "recipe")
    assert isinstance(preset, PromptsPreset)
    short = preset.model_copy(update={"runs": 1, "prefill": (), "max_tokens": 16})
    result = bench(Subject(stand_in().url, None, None, None, None, None), "recipe", short, silent)
    head, *rows = result.tables()[0]
    assert head[-3:] == ["original", "stage-d", "stage-d-final"]
    assert [row[-3:] for row in rows] == [
        ["16.90", "64.36", "49.68"],
        ["18.10", "53.78", "58.52"],
        ["17.20", "48.67", "47.54"],
        ["14.60", "31.81", "25.91"],
        ["16.70", "49.70", "45.40"],
    ]


def test_two_prompts_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="names two prompts"):
        PromptsPreset.model_validate(
            {**PRESET.model_dump(by_alias=True), "prompts": [vars(NamedPrompt(name="a", prompt="b"))] * 2}
        )


def test_a_run_knows_its_median_and_spread(stand_in: Callable[..., Any]) -> None:
    (found,) = prompts.run(Client(stand_in().url), "m", PRESET, silent)
    runs = [replace(run, tok_s=rate) for run, rate in zip(found.runs, (10.0, 12.0, 99.0, 99.0), strict=True)]
    changed = replace(found, runs=runs)
    assert changed.tok_s == 11.0
    assert changed.spread == pytest.approx(2 / 11)


LINE = "INFO 12-01 [metrics.py:120] SpecDecoding metrics: Accepted: {} tokens, Drafted: {} tokens"


@pytest.mark.parametrize(("told", "flaws"), [(60, []), (55, ["the log tells of 55 accepted"])])
def test_the_servers_own_log_is_compared_over_all_requests_warm_ups_included(
    told: int, flaws: list[str], stand_in: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launch.proof.bench.run.LOG_SECONDS", 0.2)
    monkeypatch.setattr("launch.proof.bench.run.LOG_EVERY", 0.01)
    server = stand_in(spec=SPEC)

    def head_log() -> list[str]:
        # The stand-in's counters begin at 1000; its log is written when all five answers are there.
        now = [LINE.format(told, 100)] if len(server.requests) == 5 else []
        return [LINE.format(1000, 1000), *now]

    result = bench(Subject(server.url, None, None, None, None, head_log), "p", PRESET, silent)
    assert result.counted is not None
    assert (result.counted.accepted, result.counted.draft_tokens) == (60, 100)
    assert [flaw[: len(told_flaw)] for flaw, told_flaw in zip(result.flaws, flaws, strict=True)] == flaws
