"""Judging of the logs gate: counted signals of every rank in scope."""

from typing import Any

from launch.plan.logs import in_scope
from launch.proof.verdict import Judgement, Raw, Verdict, short
from recipe.config.gate import LogsGate


def judge_logs(gate: LogsGate, raw: Raw) -> Judgement:
    """Judge counted signals. A log that is empty or of an earlier start is a finding: it would hide all others."""
    bar = {"findings": 0}
    if "logs_error" in raw or not raw["ranks"]:
        reason = str(raw.get("logs_error", "no rank's log was given"))
        return Judgement(Verdict.INCONCLUSIVE, None, bar, f"the logs could not be read: {reason} — read them by hand")
    serve, release = raw.get("serve", {}), raw.get("release")
    forbidden = [(one, seen) for one, seen in zip(gate.forbidden, raw["forbidden"], strict=True)]
    required = [(one, seen) for one, seen in zip(gate.required, raw["required"], strict=True)]
    forbidden = [(one, seen) for one, seen in forbidden if one.counts(serve, release)]
    required = [(one, seen) for one, seen in required if one.counts(serve, release)]
    findings = []
    for signal, seen in forbidden:
        findings += [
            f"{_where(where)} wrote {short(str(where['first']))}: {signal.because}"
            for where in seen
            if int(where["count"]) > 0
        ]
    for wanted, seen in required:
        findings += [
            f"{_where(where)} wrote {short(str(where['first']))}: {wanted.because}"
            for where in seen
            if set(where.get("values", ())) & set(wanted.refused)
        ]
    scopes = [signal.ranks for signal, _ in (*required, *forbidden)]
    for one in raw["ranks"]:
        if not any(in_scope(scope, int(one["rank"])) for scope in scopes):
            continue
        if not one.get("current", True):
            findings.append(f"the log of {_where(one)} is of another start: read it when that rank runs")
        elif int(one["lines"]) == 0:
            findings.append(f"the log of {_where(one)} is empty: find out where that rank writes, or whether it ran")
    for wanted, seen in required:
        findings += [
            f"signal not found: {_where(where)} wrote {wanted.pattern!r} {where['count']} times instead of at least"
            f" {wanted.min_count}: {wanted.because}"
            for where in seen
            if int(where["count"]) < wanted.min_count
        ]
    if findings:
        return Judgement(
            Verdict.FAIL,
            len(findings),
            bar,
            f"{'; '.join(findings[:3])} — read the log around it; update the signal if vLLM only reworded it",
        )
    watched = len(required) + len(forbidden)
    return Judgement(Verdict.PASS, 0, bar, f"{watched} signals are as they must be on {len(raw['ranks'])} ranks")


def _where(one: dict[str, Any]) -> str:
    return f"{one['node']} (rank {one['rank']})"
