"""Measures what the tool-call and reasoning parsers make of a chat answer."""

from typing import Any

from launch.proof.asking import Raw, failed
from launch.proof.client import ApiError
from launch.proof.context import GateContext
from recipe.config.gate import ReasoningGate, ToolCallGate


def tool_call(gate: ToolCallGate, context: GateContext) -> Raw:
    """One request that may call one tool."""
    parameters = {"type": "object", "properties": {gate.argument: {"type": "string"}}, "required": [gate.argument]}
    function = {"name": gate.tool, "description": gate.summary, "parameters": parameters}
    more = {"tools": [{"type": "function", "function": function}], "tool_choice": "auto"}
    return _message(gate, context, more)


def reasoning(gate: ReasoningGate, context: GateContext) -> Raw:
    """One request that wants thought."""
    return _message(gate, context, {})


def _message(gate: ToolCallGate | ReasoningGate, context: GateContext, more: dict[str, Any]) -> Raw:
    if gate.template:
        more["chat_template_kwargs"] = dict(gate.template)
    try:
        message, reason = context.client.message(
            context.model, gate.prompt, tokens=gate.max_tokens, deadline=gate.deadline, more=more
        )
    except ApiError as error:
        return failed(error)
    return {"message": message, "finish_reason": reason}
