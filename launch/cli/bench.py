"""The command bench: throughput, latency and acceptance of a cluster or of any address."""

import json
import os
from pathlib import Path

import click

from launch.cli.columns import columns
from launch.cli.context import Context
from launch.cli.given import Given
from recipe.errors import Exit, HallmarkError


@click.command()
@click.argument("target", metavar="CLUSTER|URL")
@click.option("--preset", default="recipe", metavar="P", help="a file of configs/bench/ (default: recipe)")
@click.option("--model", metavar="NAME", help="the served model, where an address serves several")
@click.option("--data", type=Given(), help="a ShareGPT file for a load (default: one is made)")
@click.option(
    "--vllm",
    metavar="PROGRAM",
    help="the vLLM program that sends a load (default: the one that serves)",
)
@click.option("--out", type=Given(), help="a folder for the JSON and the charts")
@click.pass_obj
def bench(
    context: Context, target: str, preset: str, model: str | None, data: Path | None, vllm: str | None, out: Path | None
) -> int:
    """Measure CLUSTER, or the API at URL. It sends requests and changes nothing.

    The key of an address that wants one is read from the variable OPENAI_API_KEY.
    """
    from launch.ledger.bench import of_cluster, on_path
    from launch.proof.bench import charts
    from launch.proof.bench.program import LocalProgram
    from launch.proof.bench.run import Subject
    from launch.proof.bench.run import bench as measure
    from recipe.config.bench import load_preset

    wanted = load_preset(context.home, preset)
    if data is not None and not data.is_file():
        raise HallmarkError(f"there is no file {data}", hint="give a ShareGPT file, or leave --data away")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    if target.startswith(("http://", "https://")):
        url = target.removesuffix("/").removesuffix("/v1")
        program = LocalProgram(vllm) if vllm else on_path()
        subject = Subject(url, os.environ.get("OPENAI_API_KEY"), model, program, data, None)
    else:
        subject = of_cluster(context.home, target, model, vllm, data, context.say)
    result = measure(subject, preset, wanted, context.say)
    document = result.document()
    if out is not None:
        (out / f"{preset}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        for path in charts.write(result, out):
            context.say(f"wrote {path}")

    def text() -> str:
        notes = [f"note: {flaw}" for flaw in result.flaws]
        return "\n\n".join([*(columns(table) for table in result.tables()), *(["\n".join(notes)] if notes else [])])

    context.emit(document, text)
    return int(Exit.NOT_DONE if result.failed else Exit.OK)
