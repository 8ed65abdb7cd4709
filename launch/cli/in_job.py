"""`python -m launch.cli.in_job`: waits inside a job until its group answers, and runs the trial gates on it.

No command for people: the script of a Slurm job calls it. It ends with 0 when the group is taken, else with 2.
"""

import os
import sys
import time
from pathlib import Path

import click

from launch.cli.given import Given
from launch.engines.secrets import API_KEY, resolve
from launch.ledger.judge import load_gates, objections
from launch.plan.logs import RankLog
from launch.proof.client import Client
from launch.proof.context import GateContext
from launch.proof.gates import GateResult, run_gates
from launch.proof.ready import probe
from recipe.errors import Exit, HallmarkError

_POLL = 0.5


@click.command()
@click.option("--home", type=Given(), required=True, help="the project's root, where the gates are")
@click.option("--url", required=True)
@click.option("--model", required=True, help="the name under which it is served")
@click.option("--seconds", type=float, required=True, help="how long the group may take until it answers")
@click.option("--logs", type=Given(), required=True, help="the folder with rank-N.log")
@click.option("--node", "nodes", multiple=True, help="the ranks' names in order")
@click.option("--gate", "names", multiple=True)
@click.option("--patchset")
def in_job(
    home: Path,
    url: str,
    model: str,
    seconds: float,
    logs: Path,
    nodes: tuple[str, ...],
    names: tuple[str, ...],
    patchset: str | None,
) -> None:
    """Wait for the group, then judge it."""
    key = resolve(f"env:{API_KEY}", API_KEY) if os.environ.get(API_KEY) else None
    gates = load_gates(home, list(names))
    ends = time.monotonic() + seconds
    while not (answer := probe(url, model, deadline=max(1.0, ends - time.monotonic()), api_key=key)).ok:
        if time.monotonic() > ends:
            raise HallmarkError(f"the group did not answer within {seconds:g} s: {answer.reason}")
        time.sleep(_POLL)
    _say(f"the group answers at {url}")

    def progress(name: str, result: GateResult | None) -> None:
        if result is not None:
            _say(f"{result.name}: {result.verdict} — {result.summary}")

    def collected() -> list[RankLog]:
        texts = [logs / f"rank-{rank}.log" for rank in range(len(nodes))]
        return [
            RankLog(node, rank, path.read_text(errors="replace") if path.is_file() else "")
            for rank, (node, path) in enumerate(zip(nodes, texts, strict=True))
        ]

    with Client(url, api_key=key) as client:
        results = run_gates(gates, GateContext(client, model, collected, patchset), progress)
    if reasons := objections(results):
        raise HallmarkError("; ".join(reasons))
    _say(f"{model} is served at {url}/v1")


def _say(line: str) -> None:
    print(f"hallmark: {line}", flush=True)


if __name__ == "__main__":
    try:
        in_job.main(standalone_mode=False)
    except HallmarkError as error:
        _say(str(error))
        sys.exit(Exit.NOT_DONE)
