"""Judging of what needs no completion: samples of /metrics, ranks, memory."""

from typing import Any

from launch.proof.verdict import Judgement, Raw, Verdict
from recipe.config.gate import MemoryGate, MetricGate

LAUNCHED = "launched"


def judge_metric(gate: MetricGate, raw: Raw, patchset: str | None) -> Judgement:
    """The sample is there and has its value."""
    bar: dict[str, Any] = {"metric": gate.metric, "labels": dict(gate.labels), "equals": gate.equals}
    if LAUNCHED in gate.labels.values() and patchset is None:
        return Judgement(
            Verdict.INCONCLUSIVE,
            None,
            bar,
            "it is not known which patch set was launched — launch with Hallmark",
        )
    if "metrics_error" in raw:
        reason = f"/metrics could not be read: {raw['metrics_error']} — look at the head's log"
        return Judgement(Verdict.INCONCLUSIVE, None, bar, reason)
    labels = {name: patchset if value == LAUNCHED else value for name, value in gate.labels.items()}
    bar["labels"] = labels
    wanted = gate.metric + ("{" + ", ".join(f"{k}={_cut(v)}" for k, v in labels.items()) + "}" if labels else "")
    found = [one for one in raw["samples"] if all(one["labels"].get(name) == value for name, value in labels.items())]
    if not found:
        others = "; ".join(
            ", ".join(f"{name}={_cut(one['labels'].get(name))}" for name in labels) for one in raw["samples"][:3]
        )
        seen = f"it has {others}" if others else "it has no sample of that name"
        hint = "the server runs other code than was launched, or the patch that adds the figure does not work"
        return Judgement(Verdict.FAIL, None, bar, f"/metrics has no {wanted}; {seen} — {hint}")
    values = [one["value"] for one in found]
    wrong = [value for value in values if gate.equals is not None and value != gate.equals]
    if wrong:
        hint = "look up what the metric counts, and when it left that value"
        return Judgement(Verdict.FAIL, wrong[0], bar, f"{wanted} is {wrong[0]} instead of {gate.equals:g} — {hint}")
    return Judgement(Verdict.PASS, values[0], bar, f"{wanted} is {values[0]}")


def judge_ranks(raw: Raw) -> Judgement:
    """Every rank runs as planned, and what they logged of the same matter is the same."""
    bar = {"findings": 0}
    if "ranks_error" in raw or not raw["ranks"]:
        reason = raw.get("ranks_error", "nothing is known of the ranks")
        return Judgement(Verdict.INCONCLUSIVE, None, bar, f"{reason} — look at `hallmark status`")
    found = []
    for rank in raw["ranks"]:
        where = f"rank {rank['rank']} ({rank['name']})"
        if not rank["alive"]:
            found.append(f"{where} does not run")
        found += [f"{where}: {drift}" for drift in rank["drift"]]
    for pattern, nodes in raw["same"].items():
        if len({tuple(lines) for lines in nodes.values()}) > 1:
            each = "; ".join(f"{node}: {', '.join(lines)[:120] or 'nothing'}" for node, lines in nodes.items())
            found.append(f"the logs differ in {pattern!r}: {each}")
    total = len(raw["ranks"])
    if found:
        hint = "launch again; a node that was changed by hand shows here"
        return Judgement(Verdict.FAIL, len(found), bar, f"{'; '.join(found[:3])} — {hint}")
    return Judgement(Verdict.PASS, 0, bar, f"{total} ranks run what was planned, and the same")


def judge_memory(gate: MemoryGate, raw: Raw) -> Judgement:
    """The least share that is free on any node and GPU."""
    bar = {"min-free": gate.min_free, "min-gpu-free": gate.min_gpu_free}
    nodes = raw["nodes"]
    silent = [str(node["node"]) for node in nodes if not node["total"]]
    if "memory_error" in raw or not nodes or silent:
        reason = raw.get("memory_error") or f"{', '.join(silent) or 'no node'} tells nothing of its memory"
        return Judgement(Verdict.INCONCLUSIVE, None, bar, f"{reason} — read /proc/meminfo and nvidia-smi there")
    shares = [(node["available"] / node["total"], gate.min_free, str(node["node"])) for node in nodes]
    shares += [
        (gpu[0] / gpu[1], gate.min_gpu_free, f"GPU {place} of {node['node']}")
        for node in nodes
        for place, gpu in enumerate(node["gpus"])
        if gpu is not None
    ]
    least = min(share for share, _, _ in shares)
    short_of = [f"{where} has {share:.1%} free, the bar is {low:.1%}" for share, low, where in shares if share < low]
    if short_of:
        hint = "lower gpu-memory-utilization or max-num-seqs, or end what else runs there"
        return Judgement(Verdict.FAIL, least, bar, f"{'; '.join(short_of[:3])} — {hint}")
    return Judgement(Verdict.PASS, least, bar, f"at least {least:.1%} of the memory is free, on {len(nodes)} nodes")


def _cut(label: object) -> str:
    text = str(label)
    return text if len(text) <= 16 else text[:12] + "…"
