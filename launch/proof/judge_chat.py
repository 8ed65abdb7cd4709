"""Judging of parsed chat answers: tool calls and reasoning."""

import json
from typing import Any

from launch.proof.verdict import Judgement, Raw, Verdict, next_step, short
from recipe.config.gate import ReasoningGate, ToolCallGate

# What models mark calls and thought with; in a parsed answer none of it is left.
_MARKS = ("<think>", "</think>", "<tool_call", "tool_calls_begin", "tool▁call", "<｜", "<|", "｜DSML｜")


def judge_tool_call(gate: ToolCallGate, raw: Raw) -> Judgement:
    """The answer is one parsed call of the tool, with the argument as asked."""
    bar = {"tool": gate.tool, "argument": gate.argument}
    if "error" in raw:
        return _fails(bar, f"the request failed: {raw['error']}", next_step(raw, "look at the head's log"))
    message = raw["message"]
    calls = message.get("tool_calls") or []
    text = str(message.get("content") or "")
    hint = "see whether tool-call-parser, tokenizer-mode and the chat template belong to this model"
    if not calls:
        return _fails(bar, f"no tool was called; the text is {short(text)}", hint)
    name, given = calls[0]["function"]["name"], str(calls[0]["function"]["arguments"])
    if name != gate.tool:
        return _fails(bar, f"{short(str(name))} was called instead of {gate.tool}", hint)
    value = _argument(given, gate.argument)
    if value is None:
        return _fails(bar, f"the arguments are no JSON object with {gate.argument}: {short(given)}", hint)
    if gate.contains.lower() not in value.lower():
        return _fails(bar, f"{gate.argument} is {short(value)}, without {short(gate.contains)}", hint)
    if mark := _marked(text):
        return _fails(bar, f"the text still has {mark!r}: {short(text)}", hint)
    return Judgement(Verdict.PASS, name, bar, f"{name} was called with {gate.argument} {short(value)}")


def judge_reasoning(gate: ReasoningGate, raw: Raw) -> Judgement:
    """Thought and answer came apart, without marks."""
    bar = {"contains": gate.contains}
    if "error" in raw:
        return _fails(bar, f"the request failed: {raw['error']}", next_step(raw, "look at the head's log"))
    message = raw["message"]
    thought = str(message.get("reasoning") or message.get("reasoning_content") or "")
    text = str(message.get("content") or "")
    hint = "see whether reasoning-parser and the chat template belong to this model"
    if raw["finish_reason"] == "length" and not text:
        reason = f"the answer ended after {gate.max_tokens} tokens, before its content"
        return Judgement(Verdict.INCONCLUSIVE, None, bar, f"{reason} — raise max-tokens")
    if not thought.strip():
        return _fails(bar, f"there is no reasoning; the content is {short(text)}", hint)
    if mark := _marked(thought) or _marked(text):
        return _fails(bar, f"{mark!r} is left in the answer", hint)
    if gate.contains not in text:
        return _fails(bar, f"the content {short(text)} lacks {short(gate.contains)}", hint)
    return Judgement(Verdict.PASS, len(thought), bar, f"{len(thought)} characters of reasoning, then {short(text)}")


def _fails(bar: dict[str, Any], what: str, hint: str) -> Judgement:
    return Judgement(Verdict.FAIL, None, bar, f"{what} — {hint}")


def _argument(given: str, name: str) -> str | None:
    try:
        found = json.loads(given)
    except ValueError:
        return None
    return str(found[name]) if isinstance(found, dict) and name in found else None


def _marked(text: str) -> str | None:
    return next((mark for mark in _MARKS if mark in text), None)
