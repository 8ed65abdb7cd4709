"""Judging of what answers say: single prompts, a batch, a prompt as long as the context allows."""

from math import ceil

from launch.proof.verdict import Judgement, Raw, Verdict, next_step, short
from recipe.config.gate import AnswersGate, BatchGate, Expect, LongPromptGate


def judge_answers(gate: AnswersGate, raw: Raw) -> Judgement:
    """Every answer is as expected."""
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


def judge_batch(gate: BatchGate, raw: Raw) -> Judgement:
    """Answers are the same together as alone, and they did run together."""
    total = len(gate.prompts)
    # A certificate's bar is a whole number of prompts.
    least = ceil(gate.min_same * total)
    bar = {"same": least}
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
    if same < least:
        hint = "late differences may be rounding (ask for fewer tokens); early ones are a batching fault"
        return Judgement(Verdict.FAIL, same, bar, f"{said}; {differing[0]} — {hint}")
    doubt = _no_batch(raw)
    if doubt:
        return Judgement(Verdict.INCONCLUSIVE, same, bar, f"{said}, but {doubt}")
    return Judgement(Verdict.PASS, same, bar, said)


def judge_long_prompt(gate: LongPromptGate, raw: Raw) -> Judgement:
    """The long prompt was taken whole and answered whole, and the short one is answered as before."""
    bar = {"tokens": gate.max_tokens, "at-most": gate.at_most}

    def fails(what: str, hint: str) -> Judgement:
        return Judgement(Verdict.FAIL, raw.get("length"), bar, f"{what} — {next_step(raw, hint)}")

    if "error" in raw:
        return fails(f"a request failed: {raw['error']}", "look for the exception in the logs; lower max-model-len")
    if raw["longest"] is None:
        hint = "judge it by hand; vLLM of 0.22 and newer tells"
        return Judgement(Verdict.INCONCLUSIVE, None, bar, f"the server does not tell its longest context — {hint}")
    for moment in ("before", "after"):
        if "error" in raw[moment]:
            return fails(f"the short prompt {moment} it failed: {raw[moment]['error']}", "look at the head's log")
    length, answer = int(raw["length"]), raw["answer"]
    said = f"a prompt of {length} tokens, of {raw['longest']} in all,"
    if int(answer["prompt_tokens"]) != length:
        return fails(f"{said} was taken as {answer['prompt_tokens']}", "see what cuts or adds tokens on the way")
    if int(answer["tokens"]) != gate.max_tokens:
        got = f"{answer['tokens']} tokens instead of {gate.max_tokens}"
        return fails(f"{said} was answered with {got}", "see whether drafts run past the end of the context")
    before, after = str(raw["before"]["text"]), str(raw["after"]["text"])
    if before != after:
        changed = f"{short(before)} before it and {short(after)} after it"
        return fails(f"{said} was answered, but the short prompt got {changed}", "a cache slot was overwritten")
    return Judgement(Verdict.PASS, length, bar, f"{said} got {gate.max_tokens} tokens, and what followed was as before")


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
