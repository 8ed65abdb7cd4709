"""Judging of gates: bars and raw numbers in, verdict out.

Pure, so that the verdicts of a certificate can be judged again from what it carries. With each verdict come the
value that was compared, the bar, and a sentence that ends with what to try next when it is not a pass.
"""

from typing import Any, assert_never

from launch.proof.judge_acceptance import judge_acceptance
from launch.proof.judge_logs import judge_logs
from launch.proof.verdict import Judgement, Raw, Verdict, next_step, short
from recipe.config.gate import AcceptanceGate, AnswersGate, BatchGate, Expect, Gate, LogsGate, MetricGate

LAUNCHED = "launched"


def judge(gate: Gate, raw: Raw, patchset: str | None) -> Judgement:
    """Judge raw numbers of launch.proof.measure by the gate's bars.

    `patchset` is the sha256 (hex) of the patch set that was launched. Errors: KeyError, TypeError, ValueError,
    AttributeError or IndexError when the raw numbers are not of that gate's kind.
    """
    match gate:
        case AnswersGate():
            return _answers(gate, raw)
        case AcceptanceGate():
            return judge_acceptance(gate, raw)
        case LogsGate():
            return judge_logs(gate, raw)
        case MetricGate():
            return _metric(gate, raw, patchset)
        case BatchGate():
            return _batch(gate, raw)
        case _:
            assert_never(gate)


def _answers(gate: AnswersGate, raw: Raw) -> Judgement:
    total = len(gate.prompts)
    faults = []
    for prompt, answer in zip(gate.prompts, raw["answers"], strict=False):
        fault = _answer_fault(prompt.expect, answer)
        if fault:
            faults.append(f"{short(prompt.prompt)}: {fault}")
    asked = len(raw["answers"])
    right = asked - len(faults)
    bar = {"right": total}
    said = f"{right} of {total} answers are as expected"
    if right == total:
        return Judgement(Verdict.PASS, right, bar, said)
    first = faults[0] if faults else "the others were not asked"
    return Judgement(
        Verdict.FAIL,
        right,
        bar,
        f"{said}; {first} — {next_step(raw, 'ask the same prompt of the last certified image')}",
    )


def _answer_fault(expect: Expect, answer: Raw) -> str | None:
    if "error" in answer:
        return str(answer["error"])
    text, tokens = str(answer["text"]), int(answer["tokens"])
    if tokens < expect.min_tokens:
        return f"{tokens} tokens came back, at least {expect.min_tokens} are expected"
    if not text.strip():
        return f"{tokens} tokens came back without any text"
    if expect.exact is not None and text != expect.exact:
        return f"{short(text)} came back instead of {short(expect.exact)}"
    if expect.contains is not None and expect.contains not in text:
        return f"{short(text)} came back, which does not contain {short(expect.contains)}"
    return None


def _metric(gate: MetricGate, raw: Raw, patchset: str | None) -> Judgement:
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


def _batch(gate: BatchGate, raw: Raw) -> Judgement:
    total = len(gate.prompts)
    bar = {"same": total}
    alone, together = raw["alone"], raw["together"]
    errors = [str(answer["error"]) for answer in (*alone, *together) if "error" in answer]
    if errors:
        hint = next_step(raw, "look for the exception in the head's log")
        return Judgement(Verdict.FAIL, None, bar, f"{len(errors)} requests failed: {errors[0]} — {hint}")
    if "metrics_error" in raw:
        reason = f"/metrics could not be read: {raw['metrics_error']} — look at the head's log"
        return Judgement(Verdict.INCONCLUSIVE, None, bar, reason)
    differing = [
        f"{short(prompt)} gave {short(a['text'])} alone and {short(b['text'])} in the batch"
        for prompt, a, b in zip(gate.prompts, alone, together, strict=True)
        if a["text"] != b["text"]
    ]
    same = total - len(differing)
    said = f"{same} of {total} answers are the same in a batch as alone"
    if differing:
        hint = "late differences may be rounding (ask for fewer tokens); early ones are a batching fault"
        return Judgement(Verdict.FAIL, same, bar, f"{said}; {differing[0]} — {hint}")
    doubt = _no_batch(raw)
    if doubt:
        return Judgement(Verdict.INCONCLUSIVE, same, bar, f"{said}, but {doubt}")
    return Judgement(Verdict.PASS, same, bar, said)


def _no_batch(raw: Raw) -> str | None:
    # Requests that were sent together may still be served one after the other; the number of steps tells.
    start, between, end = raw["steps"]
    if start is None or between is None or end is None:
        return "the server counts no steps, so that it is unknown whether they ran together — enable its statistics"
    for tokens in (raw["tokens_alone"], raw["tokens_together"]):
        if tokens["served_tokens"] is not None and tokens["served_tokens"] != tokens["own_tokens"]:
            return "other requests ran too — run the gate again while nobody else uses the server"
    if end - between >= between - start:
        return f"they took {end - between} steps as against {between - start} alone — allow max-num-seqs above one"
    return None


def _cut(label: object) -> str:
    text = str(label)
    return text if len(text) <= 16 else text[:12] + "…"
