"""What patches cost while decoding: two engines side by side on one GPU, one with each tree, measured in turns.

`measure` is the controller; `python -m scripts.proofs.cost CASE` is one engine, which does one round whenever a line
arrives on its standard input. A round is the time from a batch's first token to its last, so prefill does not count;
only one engine works at a time, and which of a pair goes first is drawn anew for every pair.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from scripts.proofs import run
from scripts.proofs.run import Places

_TOKENS = 256
_MARK = "ROUND "


def measure(places: Places, plan: dict[str, Any], pairs: int, until: float, eager: bool) -> dict[str, Any]:
    """Rounds of the trees `released` and `patched` in pairs; stops early at `until` (a time of time.monotonic()).

    Returns {"pairs": [[released, patched], ...] in seconds a step, "ratio", "interval", "steps"}.
    """
    names = ("released", "patched")
    engines = {name: _start(places, plan, name, eager) for name in names}
    try:
        for name in names:
            # Two rounds before it counts: kernels are compiled in the first.
            for _ in range(2):
                _round(engines[name])
        found: list[list[float]] = []
        steps: set[int] = set()
        order = random.Random(1)
        while len(found) < pairs and time.monotonic() < until:
            times = {}
            for name in order.sample(names, 2):
                answer = _round(engines[name])
                times[name] = answer["seconds"] / answer["steps"]
                steps.add(answer["steps"])
            found.append([times["released"], times["patched"]])
    finally:
        for engine in engines.values():
            engine.kill()
            engine.wait()
    return {"pairs": found, "steps": sorted(steps), "eager": eager, **summary(found)}


def summary(pairs: list[list[float]]) -> dict[str, Any]:
    """Median of the pairs' ratios, and the 95 % interval of that median from 10,000 resamples."""
    ratios = [patched / released for released, patched in pairs]
    draw = random.Random(2)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return {"ratio": statistics.median(ratios), "interval": [medians[249], medians[9749]]}


def _start(places: Places, plan: dict[str, Any], name: str, eager: bool) -> subprocess.Popen[str]:
    case = {"name": f"cost-{name}", "tree": name, "model": "native", "speculate": True}
    folder = run.tree(places, name, plan["trees"][name])
    asked = run.engine_case(places, case)
    asked["engine"] |= {"enforce_eager": eager}
    if not eager:
        # Graphs of whole decode steps; compiling the model as well would take longer than the measurement.
        asked["engine"] |= {"compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}}
    path = places.out / f"cost-{name}.case"
    path.write_text(json.dumps(asked), encoding="utf-8")
    log = (places.out / f"cost-{name}{'-eager' if eager else ''}.log").open("wb")
    command = [sys.executable, "-u", "-m", "scripts.proofs.cost", str(path)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=run.environment(places, folder),
    )


def _round(engine: subprocess.Popen[str]) -> dict[str, Any]:
    assert engine.stdin is not None and engine.stdout is not None
    engine.stdin.write("\n")
    engine.stdin.flush()
    for line in engine.stdout:
        if line.startswith(_MARK):
            answer: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            return answer
    raise RuntimeError("an engine of the cost measurement ended; see its log")


def _serve(case_file: str) -> None:
    """One engine: a round for every line of standard input."""
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found,unused-ignore]

    from scripts.proofs import boot

    case = json.loads(Path(case_file).read_text(encoding="utf-8"))
    # Every round computes the same; with the prefix cache later ones would begin elsewhere than the first.
    llm = LLM(**boot.arguments(case), enable_prefix_caching=False)
    prompts = boot.prompts(llm)
    sampling = SamplingParams(max_tokens=_TOKENS, temperature=0, ignore_eos=True, detokenize=False)
    engine = llm.llm_engine
    for number, _ in enumerate(sys.stdin):
        for index, prompt in enumerate(prompts):
            engine.add_request(f"{number}-{index}", prompt, sampling)
        begin, steps = 0.0, 0
        while engine.has_unfinished_requests():
            outputs = engine.step()
            if begin:
                steps += 1
            elif len(outputs) == len(prompts):
                begin = time.perf_counter()
        print(_MARK + json.dumps({"seconds": time.perf_counter() - begin, "steps": steps}), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
