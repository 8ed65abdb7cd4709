"""Running of gates: read the file, measure, judge, and put the result into one record."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from launch.proof.judge import judge
from launch.proof.measure import GateContext, measure
from launch.proof.verdict import Judgement, Verdict
from recipe.config.gate import Gate, LogsGate, definition

Progress = Callable[[str, "GateResult | None"], None]


@dataclass(frozen=True)
class GateResult:
    """What one gate found. All fields are JSON-able.

    `definition` is the gate file's content and `raw` the numbers, so that the verdict can be judged again;
    `value` is the figure that was compared with `bar`; `seconds` is how long it took.
    """

    name: str
    kind: str
    verdict: Verdict
    value: float | int | str | None
    bar: dict[str, Any]
    summary: str
    definition: dict[str, Any]
    raw: dict[str, Any]
    seconds: float

    def document(self) -> dict[str, Any]:
        """The result as plain data."""
        return asdict(self)


def run_gate(name: str, gate: Gate, context: GateContext) -> GateResult:
    """Measure and judge one gate. Never raises for what the server does or does not do."""
    started = time.monotonic()
    raw = measure(gate, context)
    judgement = judge(gate, raw, context.patchset)
    return _result(name, gate, judgement, raw, time.monotonic() - started)


def run_gates(
    gates: Mapping[str, Gate], context: GateContext, progress: Progress = lambda name, result: None
) -> list[GateResult]:
    """Run gates in the order given. `progress` is called with the name before each, with its result after.

    Once the server stopped answering, the gates that need it are not run (each would wait for its own
    deadline while nothing serves) and count as inconclusive; logs are still looked at.
    """
    results: list[GateResult] = []
    gone: str | None = None
    for name, gate in gates.items():
        progress(name, None)
        if gone and not isinstance(gate, LogsGate):
            reason = f"not run: the server stopped answering in gate {gone} — see what the logs end with"
            result = _result(name, gate, Judgement(Verdict.INCONCLUSIVE, None, {}, reason), {}, 0.0)
        else:
            result = run_gate(name, gate, context)
            gone = gone or (name if "unanswered" in result.raw else None)
        results.append(result)
        progress(name, result)
    return results


def passed(results: Sequence[GateResult]) -> bool:
    """Whether there is at least one gate and every one passed."""
    return bool(results) and all(result.verdict is Verdict.PASS for result in results)


def _result(name: str, gate: Gate, judgement: Judgement, raw: dict[str, Any], seconds: float) -> GateResult:
    return GateResult(
        name=name,
        kind=gate.kind,
        verdict=judgement.verdict,
        value=judgement.value,
        bar=judgement.bar,
        summary=judgement.summary,
        definition=definition(gate),
        raw=raw,
        seconds=seconds,
    )
