"""Certificates for reports: signed ones, of gates of several kinds."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from launch.proof import keys
from launch.proof.certificate import Verification, sign, verify
from launch.proof.gates import GateResult
from launch.proof.judge import judge
from launch.proof.report.material import Link, Material
from launch.proof.statement import Evidence, build
from recipe.config.gate import definition, parse

PATCHSET = "c" * 64
MOMENT = datetime(2026, 12, 1, 10, tzinfo=UTC)
BARS = {"min-mean-length": 2.0, "min-drafts": 10, "min-per-position": {"1": 0.2}}
ACCEPTANCE = {"kind": "acceptance", "summary": "drafts are accepted", "prompts": ["a"], **BARS}
SPEED = {
    "kind": "throughput",
    "summary": "fast enough",
    "workloads": [
        {"name": "count", "prompt": "1 2", "min-tok-s": 30.0},
        {"name": "sql", "prompt": "a", "min-tok-s": 31.0},
    ],
    "fewest-runs": 2,
    "most-runs": 2,
}
SIGNALS = {
    "kind": "logs",
    "summary": "started, no fault",
    "required": [{"pattern": "startup complete", "ranks": "head", "because": "it serves"}],
    "forbidden": [{"pattern": "Traceback", "because": "an exception"}],
}


@dataclass(frozen=True)
class Certificate:
    envelope: bytes
    found: Verification

    def material(self, **more: Any) -> Material:
        link = Link("Dispatch <experts> by layer", "https://github.com/vllm-project/vllm/pull/47716")
        trusted = keys.trusted()
        shown = {keyid: (trusted[keyid].name, trusted[keyid].pem) for keyid in self.found.signers}
        return Material(self.envelope, self.found, shown, {"experts": link}, **more)


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Certificate]:
    monkeypatch.setenv("HALLMARK_STATE", str(tmp_path / "state"))
    keys.new("ops")

    def make(
        accepted: tuple[int, int] = (90, 60),
        line: str = "INFO: startup complete",
        digest: str = "a" * 64,
        speed: float = 45.0,
        **evidence: Any,
    ) -> Certificate:
        zero = {"drafts": 0, "draft_tokens": 0, "accepted": 0, "per_position": [0, 0]}
        after = {"drafts": 100, "draft_tokens": 200, "accepted": sum(accepted), "per_position": list(accepted)}
        answer = {"text": " a", "tokens": 64, "seconds": 1.5}
        raw = {"answers": [answer], "before": zero, "after": after, "own_tokens": 64, "served_tokens": 64}
        logs = {
            "ranks": [{"node": name, "rank": rank, "lines": 9} for rank, name in enumerate(("spark-a", "spark-b"))],
            "required": [[{"node": "spark-a", "rank": 0, "count": 1, "first": line}]],
            "forbidden": [[{"node": "spark-a", "rank": 0, "count": 0, "first": None}]],
        }
        said = Evidence(
            **{
                "subjects": {"config": digest},
                "configuration": {"profile": "1" * 64, "argv": "2" * 64, "patch-set": PATCHSET},
                "profile": "gb10-nvfp4",
                "cluster": "two-spark",
                "hardware": {"kind": "gb10", "machine": "aarch64"},
                "vllm": "0.33.0",
                "required": ["acceptance", "log"],
                "gates": [
                    _result("acceptance", ACCEPTANCE, raw),
                    _result("log", SIGNALS, logs),
                    _result("throughput", SPEED, _speed(speed)),
                ],
                "figures": {"single_stream": {"runs": [{"tok_s": rate} for rate in (48.0, 49.7, 49.9)]}},
                "started": MOMENT,
                "finished": MOMENT,
                "patches": {"experts": "applied"},
                **evidence,
            }
        )
        envelope = sign(build(said), keys.load_private("ops"))
        return Certificate(envelope, verify(envelope, trusted=keys.trusted()))

    return make


def _speed(tok_s: float) -> dict[str, Any]:
    counts = {"before": None, "after": None, "served_tokens": None}
    runs = [
        {name: {**counts, "own_tokens": 100, "seconds": 100 / (tok_s + more)} for name in ("count", "sql")}
        for more in (-0.1, 0.1)
    ]
    return {"answers": [{"text": " a", "tokens": 100, "seconds": 2.0}], "runs": runs}


def _result(name: str, gate: dict[str, Any], raw: dict[str, Any]) -> GateResult:
    parsed = parse(gate)
    found = judge(parsed, raw, PATCHSET)
    return GateResult(
        name, parsed.kind, found.verdict, found.value, found.bar, found.summary, definition(parsed), raw, 1.0
    )
