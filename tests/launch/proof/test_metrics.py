"""Speculation counters out of the text that vLLM 0.32.0 wrote (one engine, k=3, n-gram, one request of 40 tokens)."""

import pytest

from launch.proof.client import BadReply
from launch.proof.metrics import GENERATED, SpecCounts, samples, spec_counts, total

TEXT = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="tiny"} 12.0
# HELP vllm:spec_decode_num_drafts_created Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="tiny"} 1.7960884834514215e+09
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="tiny"} 28.0
vllm:spec_decode_num_draft_tokens_created{engine="0",model_name="tiny"} 1.796088483451481e+09
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="tiny"} 25.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="0"} 11.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="1"} 7.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="2"} 7.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="tiny",position="0"} 1.79608848345e+09
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="tiny"} 40.0
"""


def test_the_figures_are_those_that_the_server_logged_itself() -> None:
    counts = spec_counts(samples(TEXT))
    assert counts == SpecCounts(12, 28, 25, (11, 7, 7))
    assert counts.mean_length == pytest.approx(3.08, abs=0.005)
    assert counts.rate == pytest.approx(25 / 28)
    assert counts.position_rates == pytest.approx((11 / 12, 7 / 12, 7 / 12))
    assert total(GENERATED, samples(TEXT)) == 40


def test_engines_are_summed_and_creation_times_are_not() -> None:
    both = TEXT + TEXT.replace('engine="0"', 'engine="1"')
    assert spec_counts(samples(both)) == SpecCounts(24, 56, 50, (22, 14, 14))


def test_an_interval_is_the_difference_of_two_readings() -> None:
    before, after = SpecCounts(10, 30, 10, (10,)), SpecCounts(30, 90, 60, (28, 22))
    assert after.since(before) == SpecCounts(20, 60, 50, (18, 22))
    assert after.since(before).mean_length == 3.5


def test_no_drafts_give_no_figure_instead_of_a_division_by_zero() -> None:
    none = SpecCounts(0, 0, 0, (0, 0))
    assert (none.mean_length, none.rate, none.position_rates) == (None, None, ())


def test_a_server_without_speculation_has_no_counts() -> None:
    assert spec_counts(samples("vllm:generation_tokens_total 4.0\n")) is None
    assert total("vllm:nothing", samples(TEXT)) is None


@pytest.mark.parametrize("text", ["<html>", 'a{b="c" 1', "a b c d e f", "vllm:generation_tokens_total Inf\n"])
def test_text_that_is_no_metrics_is_a_bad_reply(text: str) -> None:
    with pytest.raises(BadReply):
        total(GENERATED, samples(text))
