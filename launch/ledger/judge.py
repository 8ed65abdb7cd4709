"""Runs a profile's gates on a group."""

from collections.abc import Callable, Mapping
from pathlib import Path

from launch.engines.base import Engine
from launch.group.logs import collected
from launch.group.transition import Generation
from launch.ledger.work import api_key
from launch.plan.logs import RankLog
from launch.proof.client import Client
from launch.proof.gates import GateResult, run_gates
from launch.proof.measure import GateContext
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
        context = GateContext(client, plan.model_name, lambda: rank_logs(engine, generation), plan.subject.patchset)
        return run_gates(gates, context, progress)


def rank_logs(engine: Engine, generation: Generation) -> list[RankLog]:
    """What every rank wrote since its start."""
    return collected(engine, generation.plan, generation.mark, generation.logs)


def objections(results: list[GateResult]) -> list[str]:
    """Why a group is not taken: the gates that did not pass."""
    return [
        f"gate {result.name}: {result.verdict}: {result.summary}"
        for result in results
        if result.verdict is not Verdict.PASS
    ]
