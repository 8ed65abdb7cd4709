"""Measures what needs no completion: signals in logs, samples of /metrics, ranks, memory."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite

from launch.plan import logs
from launch.plan.logs import RankLog
from launch.proof import metrics
from launch.proof.asking import Raw, no_metrics
from launch.proof.client import ApiError
from launch.proof.context import GateContext
from recipe.config.gate import LogsGate, MetricGate, RanksGate, Signal, conditions
from recipe.errors import HallmarkError

LONGEST_LINE = 300
_VERSION_SECONDS = 30.0


def signals(gate: LogsGate, context: GateContext) -> Raw:
    """Count each signal in each rank's log; with the flags and the release that the signals' conditions ask about."""
    try:
        read = [(log, logs.lines(log.text)) for log in context.logs()]
    except HallmarkError as error:
        return {"ranks": [], "logs_error": str(error)}
    asked = conditions((*gate.required, *gate.forbidden))
    ranged = any(signal.versions for signal in (*gate.required, *gate.forbidden))
    return {
        "ranks": [
            {"node": log.node, "rank": log.rank, "lines": len(found), "current": log.current} for log, found in read
        ],
        "required": [_seen(signal, read) for signal in gate.required],
        "forbidden": [_seen(signal, read) for signal in gate.forbidden],
        "serve": _flags(context.serve, asked),
        "release": _release(context) if ranged else None,
    }


def metric(gate: MetricGate, context: GateContext) -> Raw:
    """The samples of that name."""
    try:
        found = metrics.samples(context.client.metrics(deadline=gate.deadline))
    except ApiError as error:
        return no_metrics(error) | {"samples": []}
    return {
        "samples": [
            # JSON has no NaN and no infinity
            {"labels": dict(one.labels), "value": one.value if isfinite(one.value) else str(one.value)}
            for one in found
            if one.name == gate.metric
        ]
    }


def ranks(gate: RanksGate, context: GateContext) -> Raw:
    """The facts of each rank, and by pattern what each rank's log has of it."""
    try:
        facts = [asdict(fact) for fact in context.ranks()]
        read = [(log.node, "\n".join(logs.lines(log.text))) for log in context.logs()] if gate.same else []
    except HallmarkError as error:
        return {"ranks": [], "ranks_error": str(error)}
    same = {
        pattern: {node: sorted({match[0] for match in re.finditer(pattern, text)}) for node, text in read}
        for pattern in gate.same
    }
    return {"ranks": facts, "same": same}


def memory(context: GateContext) -> Raw:
    """The memory of each node now."""
    try:
        return {"nodes": [asdict(node) for node in context.memory()]}
    except HallmarkError as error:
        return {"nodes": [], "memory_error": str(error)}


def _seen(signal: Signal, read: Sequence[tuple[RankLog, list[str]]]) -> list[Raw]:
    grouped = re.compile(signal.pattern).groups == 1
    seen: list[Raw] = []
    for log, found in read:
        if logs.in_scope(signal.ranks, log.rank):
            matches = logs.matching(signal.pattern, found)
            first = matches[0].strip()[:LONGEST_LINE] if matches else None
            one: Raw = {"node": log.node, "rank": log.rank, "count": len(matches), "first": first}
            if grouped:
                one["values"] = sorted({value for line in matches for value in re.findall(signal.pattern, line)})
            seen.append(one)
    return seen


def _flags(serve: Mapping[str, str | bool], asked: set[str]) -> dict[str, str | bool]:
    # Only what is asked about: a command may have what a certificate must not.
    return {flag: value for flag, value in serve.items() if flag in asked}


def _release(context: GateContext) -> str | None:
    try:
        return context.client.version(deadline=_VERSION_SECONDS)
    except ApiError:
        return None
