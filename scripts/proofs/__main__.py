"""`python -m scripts.proofs kit|run|cost|table`: proofs of the patches on one H200 with vLLM 0.26.0.

`kit DIR` compiles the patch sets (with Hallmark's own Python); `run` and `cost` need vLLM and torch (the Python that
runs vLLM) and keep everything below --work; `table` prints the results as Markdown and writes them as one JSON file.
`run` makes the checkpoints and starts what has no result yet; it can be run again to go on.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from scripts.checkpoints.kinds import QWEN3

_CASES = Path(__file__).parent / "cases.yaml"


def main() -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.proofs", description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("kit", help="compile the patch sets and pack the applier").add_argument("folder", type=Path)
    for name, text in (("run", "start the engines of cases.yaml"), ("cost", "decode cost of the patches")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--work", type=Path, required=True, help="folder for checkpoints, trees and results")
        command.add_argument("--kit", type=Path, required=True, help="what `kit` wrote")
        command.add_argument("--seconds", type=float, default=3600, help="begin nothing after this time")
        if name == "run":
            command.add_argument("--only", help="names of cases, with commas between")
            command.add_argument("--parallel", type=int, default=4, help="engines side by side")
            command.add_argument("--limit", type=float, default=420, help="seconds for one engine")
            command.add_argument("--warm", action="store_true", help="wait for no kernels: this machine has them")
        else:
            command.add_argument("--pairs", type=int, default=40)
            command.add_argument("--eager", action="store_true", help="without CUDA graphs")
    table = commands.add_parser("table", help="print the results")
    table.add_argument("--work", type=Path, required=True)
    table.add_argument("--json", type=Path, help="write all results as one file")
    options = parser.parse_args()
    if options.command == "kit":
        from scripts.proofs import prepare

        print(*prepare.kit(options.folder), sep="\n")
        return 0
    return _on_machine(options)


def _on_machine(options: argparse.Namespace) -> int:
    import yaml

    from scripts.proofs import cost, run, table

    plan: dict[str, Any] = yaml.safe_load(_CASES.read_text(encoding="utf-8"))
    out = options.work / "results"
    if options.command == "table":
        found = table.collect(out, plan)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(table.markdown(found))
        return 0 if table.as_expected(found) else 2
    until = time.monotonic() + options.seconds
    places = run.Places(_site(), options.work / "checkpoints", options.kit, options.work / "trees", out)
    out.mkdir(parents=True, exist_ok=True)
    if not (places.checkpoints / "made").exists():
        subprocess.run([sys.executable, "-m", "scripts.checkpoints", str(places.checkpoints)], check=True)
        (places.checkpoints / "made").touch()
    if options.command == "cost":
        name = "cost-eager.json" if options.eager else "cost.json"
        measured = cost.measure(places, plan, options.pairs, until, options.eager)
        (out / name).write_text(json.dumps(measured), encoding="utf-8")
        print({key: measured[key] for key in ("ratio", "interval", "steps")}, len(measured["pairs"]))
        return 0
    names = options.only.split(",") if options.only else [case["name"] for case in plan["cases"]]
    for some in [names] if options.warm else _waves(plan, names):
        run.cases(places, plan, some, options.parallel, options.limit, until)
    return 0


def _waves(plan: dict[str, Any], names: list[str]) -> list[list[str]]:
    """The cases in the order to begin them: kernels are compiled for minutes by the first start on a machine, and some
    again by the first start of each tree, so what would only wait for the same kernels comes later."""
    chosen = [case for case in plan["cases"] if case["name"] in names]
    dense = [case["name"] for case in chosen if case["model"] == QWEN3]
    by_tree = {case["tree"]: case["name"] for case in reversed(chosen) if case["name"] not in dense}
    trees = [case["name"] for case in chosen if case["name"] in by_tree.values()]
    return [[*trees[:1], *dense], trees[1:], [name for name in names if name not in (*trees, *dense)]]


def _site() -> Path:
    """The folder that vLLM is installed in. Errors: SystemExit when there is none."""
    import importlib.util

    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        raise SystemExit("proofs: this Python has no vLLM — run it with the one that does")
    return Path(found.origin).parents[1]


if __name__ == "__main__":
    raise SystemExit(main())
