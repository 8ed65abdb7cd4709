"""Judging of gates: bars and raw numbers in, verdict out.

Pure, so that the verdicts of a certificate can be judged again from what it carries. With each verdict come the
value that was compared, the bar, and a sentence that ends with what to try next when it is not a pass.
"""

from typing import assert_never

from launch.proof.judge_answers import judge_answers, judge_batch, judge_long_prompt
from launch.proof.judge_chat import judge_reasoning, judge_tool_call
from launch.proof.judge_group import judge_memory, judge_metric, judge_ranks
from launch.proof.judge_logs import judge_logs
from launch.proof.judge_runs import judge_acceptance, judge_throughput
from launch.proof.judge_speculation import judge_speculation
from launch.proof.verdict import Judgement, Raw
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


def judge(gate: Gate, raw: Raw, patchset: str | None) -> Judgement:
    """Judge raw numbers of launch.proof.measure by the gate's bars.

    `patchset` is the sha256 (hex) of the patch set that was launched. Errors: KeyError, TypeError, ValueError,
    AttributeError, IndexError or ArithmeticError when the raw numbers are not of that gate's kind.
    """
    match gate:
        case AnswersGate():
            return judge_answers(gate, raw)
        case AcceptanceGate():
            return judge_acceptance(gate, raw)
        case ThroughputGate():
            return judge_throughput(gate, raw)
        case SpeculationGate():
            return judge_speculation(gate, raw)
        case BatchGate():
            return judge_batch(gate, raw)
        case LongPromptGate():
            return judge_long_prompt(gate, raw)
        case ToolCallGate():
            return judge_tool_call(gate, raw)
        case ReasoningGate():
            return judge_reasoning(gate, raw)
        case LogsGate():
            return judge_logs(gate, raw)
        case MetricGate():
            return judge_metric(gate, raw, patchset)
        case RanksGate():
            return judge_ranks(raw)
        case MemoryGate():
            return judge_memory(gate, raw)
        case _:
            assert_never(gate)
