"""Which verdicts of gates keep a group from being taken."""

from typing import Any

import pytest

from launch.ledger.judge import objections
from launch.proof.gates import GateResult
from launch.proof.judge import judge
from recipe.config.gate import definition, parse

GATE = {"kind": "acceptance", "summary": "s", "prompts": ["a"], "min-mean-length": 2.0, "min-drafts": 10}


def result(served: int, accepted: int = 150, **answer: Any) -> GateResult:
    """One run of 64 own tokens, of which the server counted `served`."""
    zero = {"drafts": 0, "draft_tokens": 0, "accepted": 0, "per_position": [0, 0]}
    after = {"drafts": 100, "draft_tokens": 200, "accepted": accepted, "per_position": [accepted - 10, 10]}
    span = {"before": zero, "after": after, "own_tokens": 64, "served_tokens": served, "seconds": 1.0}
    raw = {"answers": [{"text": "a", "tokens": 64, "seconds": 1.0, **answer}], "runs": [{"all": span}]}
    gate = parse(GATE)
    found = judge(gate, raw, None)
    return GateResult("x", gate.kind, found.verdict, found.value, found.bar, found.summary, definition(gate), raw, 1.0)


def test_users_who_ask_all_the_time_keep_no_proven_group_from_coming_back() -> None:
    """They ask as soon as it serves, so that no run is without them; what has no proof is not taken then."""
    blurred = result(71)
    assert "other requests ran too" in blurred.summary
    assert objections([blurred], proven=True) == []
    [told] = objections([blurred])
    assert told.startswith("gate x: inconclusive: the server counted 71 generated tokens")


@pytest.mark.parametrize(
    "bad",
    [result(64, accepted=20), result(71, error="HTTP 500"), result(71, text=" ")],
    ids=["collapsed", "failed", "empty"],
)
def test_what_fails_keeps_a_proven_group_from_coming_back_too(bad: GateResult) -> None:
    assert len(objections([bad], proven=True)) == 1
