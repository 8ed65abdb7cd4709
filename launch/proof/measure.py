"""Measuring for gates: sends the requests, reads counters and logs, returns raw numbers as JSON-able data.

Nothing is judged here. A request that fails is part of the raw data, as `{"error": text}`; after a fault that
lasts (nothing listens, time-out) no more are sent and `unanswered` holds its text.
"""

from typing import assert_never

from launch.proof.asking import Raw
from launch.proof.context import GateContext
from launch.proof.measure_answers import answers, batch, long_prompt
from launch.proof.measure_chat import reasoning, tool_call
from launch.proof.measure_group import memory, metric, ranks, signals
from launch.proof.measure_runs import acceptance, throughput
from launch.proof.measure_speculation import speculation
from recipe.config.gate import (
    AcceptanceGate,
    AnswersGate,
    BatchGate,
    Gate,
    LogsGate,
    LongPromptGate,
    MemoryGate,
    MetricGate,
    RanksGate,
    ReasoningGate,
    SpeculationGate,
    ThroughputGate,
    ToolCallGate,
)

__all__ = ["GateContext", "measure"]


def measure(gate: Gate, context: GateContext) -> Raw:
    """Measure what this gate is about. Never raises for what the server does."""
    match gate:
        case AnswersGate():
            return answers(gate, context)
        case AcceptanceGate():
            return acceptance(gate, context)
        case ThroughputGate():
            return throughput(gate, context)
        case SpeculationGate():
            return speculation(gate, context)
        case BatchGate():
            return batch(gate, context)
        case LongPromptGate():
            return long_prompt(gate, context)
        case ToolCallGate():
            return tool_call(gate, context)
        case ReasoningGate():
            return reasoning(gate, context)
        case LogsGate():
            return signals(gate, context)
        case MetricGate():
            return metric(gate, context)
        case RanksGate():
            return ranks(gate, context)
        case MemoryGate():
            return memory(context)
        case _:
            assert_never(gate)
