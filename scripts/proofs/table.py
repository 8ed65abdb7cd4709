"""Puts the results of a proof together: one document, and its Markdown tables. Measured values only."""

import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

_SIGNALS = re.compile(
    r"hallmark|MoE backend|must match w3|expert_dtype resolved|fp8_ds_mla|DSpark draft|draft stage|GPU KV cache size",
    re.IGNORECASE,
)
_SPREAD = 1.5
"""How many times further apart than two starts of the same sources two cases may be and still count as the same."""
_PREFIX = re.compile(r"^.*?(?:INFO|WARNING|ERROR) [\d:. -]+\[[^\]]*\] ")


def collect(out: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """The results below `out` in the order of the plan, each with the log lines that matter and a verdict.

    What engines generated is not kept, only how it compares with another case's: `same`, null where it does not.
    """
    found: dict[str, Any] = {"cases": {}, "cost": {}}
    for case in plan["cases"]:
        path = out / f"{case['name']}.json"
        if path.exists():
            result = json.loads(path.read_text(encoding="utf-8"))
            found["cases"][case["name"]] = {**case, **result, "signals": _signals(out / f"{case['name']}.log")}
    for case in found["cases"].values():
        case["same"], case["within"] = _same(case, found["cases"]), _within(case)
    for case in found["cases"].values():
        case["verdict"] = _verdict(case, found["cases"])
        case.pop("outputs", None)
        case.pop("forced", None)
    for name in ("cost", "cost-eager"):
        path = out / f"{name}.json"
        if path.exists():
            found["cost"][name] = json.loads(path.read_text(encoding="utf-8"))
    return found


def as_expected(found: dict[str, Any]) -> bool:
    """Whether every case that was run did what its line says."""
    return all(case["verdict"] == "as expected" for case in found["cases"].values())


def acceptance(speculation: dict[str, Any]) -> tuple[float, list[float]]:
    """Mean tokens a step (accepted ones and the target's own) and the share of drafts accepted at each position."""
    drafts = speculation["drafts"]
    share = [count / drafts for count in speculation["accepted_tokens_per_pos"]]
    return 1 + speculation["accepted_tokens"] / drafts, share


def markdown(found: dict[str, Any]) -> str:
    """Tables of the starts, the experts and the cost."""
    cases = found["cases"]
    lines = ["| case | sources | checkpoint | DSpark | result | tokens | verdict |", "| - | - | - | - | - | - | - |"]
    for name, case in cases.items():
        spec = "no"
        if case["speculate"]:
            spec = "yes" + "".join(f", {k} {v}" for k, v in case.get("spec", {}).items())
        kv = "".join(f", {v}" for v in case.get("engine", {}).values())
        lines.append(
            f"| {name} | {case['tree']} | {case['model']}{kv} | {spec} | {_result(case)} | {_likeness(case)} "
            f"| {case['verdict']} |"
        )
    lines += ["", "| case | mean tokens a step | accepted at position 0, 1, … | drafts |", "| - | - | - | - |"]
    for name, case in cases.items():
        if case.get("speculation", {}).get("drafts"):
            length, share = acceptance(case["speculation"])
            shares = ", ".join(f"{value:.2f}" for value in share)
            lines.append(f"| {name} | {length:.2f} | {shares} | {case['speculation']['drafts']} |")
    lines += [
        "",
        "| case | layer | built with | kernel | checkpoint holds | largest error as loaded | elements off "
        "| output error |",
        "| - | - | - | - | - | - | - | - |",
    ]
    for name, case in cases.items():
        for layer in case.get("experts", []):
            kernel = _share(layer["kernel"]) if layer["judged"] else "-"
            lines.append(
                f"| {name} | {layer['name']} | {layer['method']} | {layer.get('backend', '')} | {layer['kind']} "
                f"| {_share(layer['as_loaded'])} "
                f"| {layer['wrong']:.1%} | {kernel} |"
            )
    for name, cost in found["cost"].items():
        low, high = cost["interval"]
        released = sorted(pair[0] for pair in cost["pairs"])[len(cost["pairs"]) // 2]
        lines += [
            "",
            f"{name}: patched / released step time {cost['ratio']:.4f}, 95 % interval {low:.4f} to {high:.4f}, "
            f"{len(cost['pairs'])} pairs, median step of the released tree {released * 1000:.2f} ms",
        ]
    return "\n".join(lines)


def _share(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3g}"


def _signals(log: Path) -> list[str]:
    if not log.exists():
        return []
    seen: dict[str, None] = {}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if _SIGNALS.search(line) and not line.lstrip().startswith(("File ", "from ", "raise ", "/")):
            seen[_PREFIX.sub("", line)[:300]] = None
    return list(seen)


def _result(case: dict[str, Any]) -> str:
    if case["error"]:
        message = " ".join(case["error"]["message"].split()).replace("|", "\\|")
        return f"{case['error']['type']}: {message[:220]}"
    if not case["started"]:
        return f"no result (exit status {case['exit']})"
    if case["exit"] != 0:
        return f"started in {case['start_s']} s, ended while it generated (exit status {case['exit']})"
    return f"generates; started in {case['start_s']} s"


def _same(case: dict[str, Any], cases: dict[str, Any]) -> dict[str, Any] | None:
    """How a case compares with the one it is held against: free tokens before the first difference, and at the places
    that both were given the same tokens for: the share of them with the same best token, and how far apart the
    log-probabilities of the given ones are (median and largest)."""
    other = cases.get(case.get("same-as", ""))
    if other is None or not case.get("outputs") or not other.get("outputs"):
        return None
    count, total = _common(case, other)
    found: dict[str, Any] = {"tokens": count, "of": total}
    if case.get("forced") and other.get("forced"):
        found |= _alike(case["forced"][0], other["forced"][0])
    return found


def _within(case: dict[str, Any]) -> dict[str, Any] | None:
    """How one engine compares with itself, asked twice."""
    return _alike(*case["forced"]) if case.get("forced") else None


def _alike(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    apart = [abs(p - q) for p, q in zip(mine["logprob"], theirs["logprob"], strict=True)]
    best = [a == b for a, b in zip(mine["best"], theirs["best"], strict=True)]
    return {
        "places": len(best),
        "same_best": sum(best),
        "spread": statistics.median(apart),
        "largest": max(apart),
        "equal": sum(p == 0 for p in apart),
    }


def _common(case: dict[str, Any], other: dict[str, Any]) -> tuple[int, int]:
    """Tokens before the first difference, summed over the prompts, and all tokens."""
    count = total = 0
    for mine, theirs in zip(case["outputs"], other["outputs"], strict=True):
        pairs = list(zip(mine["tokens"], theirs["tokens"], strict=False))
        total += len(pairs)
        count += next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    return count, total


def _likeness(case: dict[str, Any]) -> str:
    same = case["same"]
    if same is None:
        return "-"
    text = f"{same['tokens']} of {same['of']} before the first that differs from {case['same-as']}"
    if "places" not in same:
        return text
    return (
        f"{text}; given the same tokens, {same['same_best']} of {same['places']} best tokens are the same, "
        f"log-probabilities {same['spread']:.2g} apart (median; at most {same['largest']:.2g})"
    )


def _verdict(case: dict[str, Any], cases: dict[str, Any]) -> str:
    if case["expect"] != "starts":
        error = case["error"]
        return "as expected" if error and re.search(case["expect"], error["message"]) else "not as expected"
    if case["error"] or not case["started"] or case["exit"] != 0:
        return "not as expected"
    same = case["same"]
    if same is None or same["tokens"] == same["of"] or case.get("repeats"):
        return "as expected"
    # Kernels that do not repeat themselves to the last bit are held against two starts of the same sources.
    controls = [c["same"] for c in cases.values() if c.get("repeats") and _alike_asked(c, case)]
    control = next((control for control in controls if control and "places" in control), None)
    if control is None or "places" not in same:
        return "not judged: no second start of the same sources"
    share = control["same_best"] / control["places"]
    # Two standard deviations of the difference between two such counts.
    noise = 2 * math.sqrt(2 * control["places"] * share * (1 - share))
    near = same["spread"] <= _SPREAD * control["spread"] and same["same_best"] >= control["same_best"] - noise
    return "as expected" if near else "not as expected"


def _alike_asked(control: dict[str, Any], case: dict[str, Any]) -> bool:
    same = control["model"] == case["model"] and control["speculate"] == case["speculate"]
    return same or control.get("same-as") == case.get("same-as")
