"""Runs a profile's gates on a group."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from launch.engines.base import Engine
from launch.group.logs import collected
from launch.group.transition import Generation
from launch.ledger.work import api_key
from launch.nodes.look import look
from launch.nodes.node import Gpu
from launch.plan.group import GroupPlan
from launch.plan.logs import RankLog
from launch.plan.served import serve_flags
from launch.proof.client import Client
from launch.proof.context import GateContext, NodeMemory, RankFact
from launch.proof.gates import GateResult, run_gates
from launch.proof.judge_runs import crowded
from launch.proof.verdict import Verdict
from recipe.config.gate import Gate, load_gate
from recipe.errors import ConfigError, HallmarkError, Problem


def load_gates(home: Path, names: list[str]) -> dict[str, Gate]:
    """The definitions of gates by name. Errors: ConfigError with every mistake of all of them."""
    found: dict[str, Gate] = {}
    problems: list[Problem] = []
    for name in names:
        try:
            found[name] = load_gate(home, name)
        except HallmarkError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return found


def judge(
    engine: Engine, generation: Generation, gates: Mapping[str, Gate], say: Callable[[str], None]
) -> list[GateResult]:
    """Run the gates in order and tell each verdict as it is reached."""

    def progress(name: str, result: GateResult | None) -> None:
        if result is not None:
            say(f"  {result.name}: {result.verdict} — {result.summary}")

    plan = generation.plan
    with Client(engine.api_url(plan, generation.mark), api_key=api_key(plan)) as client:
        context = GateContext(
            client,
            plan.model_name,
            lambda: rank_logs(engine, generation),
            plan.subject.patchset,
            serve_flags(plan.ranks[0].argv),
            lambda: _facts(engine, generation),
            lambda: _memory(plan),
        )
        return run_gates(gates, context, progress)


def applicable(gates: Mapping[str, Gate], plan: GroupPlan, say: Callable[[str], None]) -> dict[str, Gate]:
    """The gates that are about something this group's command has; says of the others what it lacks.

    They are no part of what the group must pass: a model without a tool-call parser has nothing to parse.
    """
    serve = serve_flags(plan.ranks[0].argv)
    for name, gate in gates.items():
        if not gate.applies(serve):
            say(f"  {name}: not applicable, the group runs without --{', --'.join(_lacking(gate.needs, serve))}")
    return {name: gate for name, gate in gates.items() if gate.applies(serve)}


def rank_logs(engine: Engine, generation: Generation) -> list[RankLog]:
    """What every rank wrote since its start."""
    return collected(engine, generation.plan, generation.mark, generation.logs)


# Kinds of gates whose figures are those of runs.
_NOISY = ("acceptance", "throughput")


def objections(results: list[GateResult], *, proven: bool = False) -> list[str]:
    """Why a group is not taken: the gates that did not pass. What is `proven` serves its users before it is judged, and
    a figure that only their requests blurred was measured when it was certified."""
    return [
        f"gate {result.name}: {result.verdict}: {result.summary}"
        for result in results
        if result.verdict is not Verdict.PASS
        and not (proven and result.verdict is Verdict.INCONCLUSIVE and result.kind in _NOISY and crowded(result.raw))
    ]


def _facts(engine: Engine, generation: Generation) -> list[RankFact]:
    drifts = engine.drift(generation.plan, generation.mark)
    states = engine.ranks(generation.plan, generation.mark)
    return [RankFact(one.name, one.rank, one.alive, tuple(drifts[one.rank])) for one in states]


def _memory(plan: GroupPlan) -> list[NodeMemory]:
    # Ranks on one machine share its memory, which is then looked at once for each and is the same.
    found = [(rank.name, look(rank.place)) for rank in plan.ranks]
    return [
        NodeMemory(name, facts.memory_available, facts.memory_total, tuple(_gpu(gpu) for gpu in facts.gpus))
        for name, facts in found
    ]


def _gpu(gpu: Gpu) -> tuple[int, int] | None:
    return None if gpu.free is None or gpu.total is None else (gpu.free, gpu.total)


def _lacking(needs: Iterable[str], serve: Mapping[str, str | bool]) -> list[str]:
    return [flag for flag in needs if serve.get(flag) in (None, False)]
