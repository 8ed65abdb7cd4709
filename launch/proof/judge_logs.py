"""Judging of the logs gate: counted signals of every rank in scope."""

from launch.plan.logs import in_scope
from launch.proof.verdict import Judgement, Raw, Verdict, short
from recipe.config.gate import LogsGate


def judge_logs(gate: LogsGate, raw: Raw) -> Judgement:
    """Judge counted signals; an empty log in scope says nothing, unless another rank's says something bad."""
    bar = {"findings": 0}
    if "logs_error" in raw or not raw["ranks"]:
        reason = str(raw.get("logs_error", "no rank's log was given"))
        return Judgement(Verdict.INCONCLUSIVE, None, bar, f"the logs could not be read: {reason} — read them by hand")
    findings = []
    for signal, seen in zip(gate.forbidden, raw["forbidden"], strict=True):
        findings += [
            f"{where['node']} (rank {where['rank']}) wrote {short(str(where['first']))}: {signal.because}"
            for where in seen
            if int(where["count"]) > 0
        ]
    scopes = [signal.ranks for signal in (*gate.required, *gate.forbidden)]
    silent = [
        str(one["node"])
        for one in raw["ranks"]
        if int(one["lines"]) == 0 and any(in_scope(scope, int(one["rank"])) for scope in scopes)
    ]
    if silent and not findings:
        return Judgement(
            Verdict.INCONCLUSIVE,
            None,
            bar,
            f"the log of {', '.join(silent)} is empty — find out where that rank writes, or whether it ran",
        )
    for required, seen in zip(gate.required, raw["required"], strict=True):
        findings += [
            f"{where['node']} (rank {where['rank']}) wrote {required.pattern!r} {where['count']} times instead of"
            f" at least {required.min_count}: {required.because}"
            for where in seen
            if int(where["count"]) < required.min_count
        ]
    if findings:
        return Judgement(
            Verdict.FAIL,
            len(findings),
            bar,
            f"{'; '.join(findings[:3])} — read the log around it; update the signal if vLLM only reworded it",
        )
    watched = len(gate.required) + len(gate.forbidden)
    return Judgement(Verdict.PASS, 0, bar, f"{watched} signals are as they must be on {len(raw['ranks'])} ranks")
